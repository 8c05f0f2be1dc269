// OpenAI's API as its official clients use it: /v1/models, /v1/chat/completions, /v1/completions,
// also without the /v1 that base addresses often lack.
#pragma once

#include "server/router.h"

namespace munia::server {

void add_openai_routes(Router& router);

}  // namespace munia::server
