// Unicode normalization form C, equal to Hugging Face tokenizers' NFC (which knows Unicode 9: marks
// and compositions of later versions pass through it untouched).
#pragma once

#include <string>
#include <string_view>

namespace munia::text {

/// True when NFC would leave `text` as it is, seen without composing anything: then normalize_nfc
/// need not be called. `text` must be valid UTF-8.
bool is_surely_nfc(std::string_view text);

/// Appends NFC of `text` (valid UTF-8) to `out`. `trusted` has a mark for each byte of `text` (see
/// MarkedText) or is empty; with marks, one for each byte appended goes to `out_trusted`: of text
/// that was composed together, all bytes must be trusted for the result to be.
void normalize_nfc(std::string_view text, std::string_view trusted, std::string& out,
                   std::string& out_trusted);

}  // namespace munia::text
