// The routes, one file for each group: each function adds its group to the router.
#pragma once

#include "server/router.h"
#include "server/service.h"

namespace munia::server {

void add_status_routes(Router& router);    // /health /ready /metrics /stats
void add_page_routes(Router& router);      // / and the page's files
void add_article_routes(Router& router);   // /predict /chat /stream
void add_classify_routes(Router& router);  // /classify
void add_text_routes(Router& router);      // /tokenize /detokenize /apply-template
/// /v1/models /v1/chat/completions /v1/completions, also without the /v1 that base addresses often
/// lack.
void add_openai_routes(Router& router);

}  // namespace munia::server
