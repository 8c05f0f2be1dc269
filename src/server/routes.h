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

}  // namespace munia::server
