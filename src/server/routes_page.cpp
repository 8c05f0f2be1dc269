// GET / and the page's files (page.h). They ask for no key: the page itself asks the user for one.
#include "server/page.h"
#include "server/routes.h"

namespace munia::server {
namespace {

void get_file(const ExchangePtr& exchange, const std::string& path) {
  const auto header = [&exchange](std::string_view name) {
    return exchange->request().header(name).value_or("");
  };
  std::optional<PageAnswer> answer =
      page_answer(path, header("accept-encoding"), header("if-none-match"));
  if (!answer)
    return exchange->fail({404, "there is nothing at this address", "", "not_found", {}});
  exchange->send(answer->status, std::move(answer->headers), std::string(answer->body));
}

}  // namespace

void add_page_routes(Router& router) {
  router.add({"GET", "/", [](Service&, const ExchangePtr& e) { get_file(e, "/"); }, true});
  for (const PageFile& file : page_files()) {
    router.add(
        {"GET", std::string(file.path),
         [path = std::string(file.path)](Service&, const ExchangePtr& e) { get_file(e, path); },
         true});
  }
}

}  // namespace munia::server
