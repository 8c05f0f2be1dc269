#include "hub/listing.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <utility>

namespace munia::hub {
namespace {

namespace json = boost::json;

Error not_a_listing() { return {ErrorCode::kInvalidData, "the hub's list of files is no list"}; }

const json::value* member(const json::value* value, std::string_view key) {
  return value != nullptr && value->is_object() ? value->get_object().if_contains(key) : nullptr;
}

std::string text_of(const json::value* value, std::size_t max_bytes = 1000) {
  if (value == nullptr || !value->is_string() || value->get_string().size() > max_bytes) return {};
  return std::string(value->get_string());
}

std::uint64_t number_of(const json::value* value) {
  if (value == nullptr) return 0;
  json::error_code error;
  const auto number = value->to_number<std::uint64_t>(error);
  return error ? 0 : number;
}

std::string hex_of(const json::value* value, std::size_t n_digits) {
  std::string text = text_of(value);
  const bool good = text.size() == n_digits && std::all_of(text.begin(), text.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  return good ? text : std::string();
}

// A licence's name as hubs write it: short, of plain letters. Anything else is not shown.
std::string licence_of(std::string text) {
  const bool good = text.size() <= 60 && std::all_of(text.begin(), text.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                             (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '+';
                    });
  return good ? text : std::string();
}

}  // namespace

const ListedFile* Listing::find(std::string_view path) const {
  for (const ListedFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

Result<Listing> parse_hf_listing(std::string_view text) {
  json::error_code error;
  const json::value value = json::parse(text, error);
  const json::value* siblings = error ? nullptr : member(&value, "siblings");
  if (siblings == nullptr || !siblings->is_array()) return not_a_listing();
  Listing listing;
  listing.commit = hex_of(member(&value, "sha"), 40);
  const json::value* card = member(&value, "cardData");
  listing.licence = licence_of(text_of(member(card, "license")));
  if (listing.licence == "other")
    listing.licence = licence_of(text_of(member(card, "license_name")));
  for (const json::value& item : siblings->get_array()) {
    const json::value* lfs = member(&item, "lfs");
    ListedFile file{text_of(member(&item, "rfilename")), number_of(member(&item, "size")),
                    hex_of(member(lfs, "sha256"), 64)};
    if (file.sha256.empty()) file.sha256 = hex_of(member(lfs, "oid"), 64);  // mirrors' spelling
    if (!file.path.empty()) listing.files.push_back(std::move(file));
  }
  return listing;
}

Result<Listing> parse_modelscope_listing(std::string_view text) {
  json::error_code error;
  const json::value value = json::parse(text, error);
  const json::value* files = error ? nullptr : member(member(&value, "Data"), "Files");
  if (files == nullptr || !files->is_array()) return not_a_listing();
  Listing listing;
  for (const json::value& item : files->get_array()) {
    if (text_of(member(&item, "Type")) == "tree") continue;
    ListedFile file{text_of(member(&item, "Path")), number_of(member(&item, "Size")),
                    hex_of(member(&item, "Sha256"), 64)};
    if (!file.path.empty()) listing.files.push_back(std::move(file));
  }
  return listing;
}

}  // namespace munia::hub
