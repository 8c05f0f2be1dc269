// The web page's files, embedded in the program when it is built (cmake/embed_page.cmake).
#pragma once

#include <span>
#include <string_view>

namespace munia::server {

struct PageFile {
  std::string_view path;     // "assets/app.js"; a compressed one ends in ".gz" beside it
  std::string_view content;  // bytes
};

/// Ascending by path; empty when the page was not built.
std::span<const PageFile> page_files();

}  // namespace munia::server
