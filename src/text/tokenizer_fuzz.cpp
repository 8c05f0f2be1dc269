// Fuzzes the tokenizer's loader and what it loads: the input up to a NUL byte is a tokenizer.json,
// the rest a text (all of it is both where there is no NUL). All of it is a packed tokenizer, too;
// and one that was loaded is packed and must come back the same.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void try_packed(std::string_view input) {
  using namespace munia;
  const auto made = text::Tokenizer::from_packed(bytes_of(input), "fuzz");
  if (!made) {
    MUNIA_CHECK(!made.error().message.empty());
    return;
  }
  const auto ids = (*made)->encode_with_special(replace_invalid_utf8(input));
  MUNIA_CHECK(ids.ok());
  for (const text::TokenId id : *ids) MUNIA_CHECK(id >= 0 && id < (*made)->vocab_size());
  (*made)->decode(*ids, false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace munia;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try_packed(input);
  const std::size_t cut = input.find('\0');
  const std::string_view json = input.substr(0, cut);
  const std::string_view bytes = cut == std::string_view::npos ? input : input.substr(cut + 1);
  const auto made = text::Tokenizer::from_json(json, "fuzz");
  if (!made) {
    MUNIA_CHECK(!made.error().message.empty());
    return 0;
  }
  const text::Tokenizer& tokenizer = **made;
  MUNIA_CHECK(tokenizer.encode(bytes).ok() == !find_invalid_utf8(bytes).has_value());

  const std::string text = replace_invalid_utf8(bytes);
  const auto plain = tokenizer.encode(text);
  const auto special = tokenizer.encode_with_special(text);
  const auto user = tokenizer.encode(text::MarkedText::from_user(text));
  const auto trusted = tokenizer.encode(text::MarkedText::from_template(text));
  MUNIA_CHECK(plain.ok() && special.ok() && user.ok() && trusted.ok());
  MUNIA_CHECK(*special == *trusted);
  const std::string packed = tokenizer.pack();
  const auto again = text::Tokenizer::from_packed(bytes_of(packed), "again");
  MUNIA_CHECK(again.ok() && (*again)->pack() == packed);
  MUNIA_CHECK(*(*again)->encode(text) == *plain);
  MUNIA_CHECK(*(*again)->encode_with_special(text) == *special);
  for (const auto& ids : {*plain, *special, *user}) {
    for (const text::TokenId id : ids) MUNIA_CHECK(id >= 0 && id < tokenizer.vocab_size());
    tokenizer.decode(ids, true);
    MUNIA_CHECK(!find_invalid_utf8(tokenizer.decode(ids, false)));
  }
  return 0;
}
