// The lexer: one pass over the source, positions kept as it goes. Its rules are those of jinja2's
// regular expressions with trim_blocks=True and lstrip_blocks=True.
#include "text/template_lexer.h"

#include <utf8proc.h>

#include <charconv>

#include "base/utf8.h"
#include "text/template_text.h"

namespace munia::text::tmpl {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : s_(std::move(source)) {}

  std::vector<Token> run() {
    while (p_ < s_.size()) lex_root();
    tokens_.push_back({TokenType::kEof, position(), "", 0, 0});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) {
    fail_at(position(), ErrorCode::kInvalidData, message);
  }
  bool at(std::size_t p, std::string_view text) const {
    return std::string_view(s_).substr(std::min(p, s_.size())).starts_with(text);
  }

  /// Position of p_. Offsets are asked for in increasing order only, so this is one walk.
  Position position() { return position(p_); }
  Position position(std::size_t offset) {
    for (; seen_ < offset && seen_ < s_.size(); ++seen_) {
      auto c = static_cast<unsigned char>(s_[seen_]);
      if (c == '\n') {
        ++where_.line;
        where_.column = 1;
      } else if ((c & 0xC0) != 0x80) {
        ++where_.column;
      }
    }
    return where_;
  }

  std::size_t skip_space(std::size_t p) const {
    while (p < s_.size()) {
      auto c = decode_utf8(s_, p);
      if (!is_space(c.code_point)) break;
      p += static_cast<std::size_t>(c.length);
    }
    return p;
  }

  /// `{% raw %}` at p_? Sets the sign and where it ends.
  bool raw_begin(char& sign, std::size_t& end) const {
    std::size_t p = p_ + 2;
    sign = 0;
    if (at(p, "-") || at(p, "+")) sign = s_[p++];
    p = skip_space(p);
    if (!at(p, "raw")) return false;
    p = skip_space(p + 3);
    if (at(p, "-%}")) return end = skip_space(p + 3), true;
    if (at(p, "%}")) return end = p + 2, true;
    return false;
  }

  /// Emits text before a tag; strips whitespace at its end as the tag asks.
  void emit_data(std::size_t begin, std::size_t end, char sign, bool variable) {
    std::string_view text = std::string_view(s_).substr(begin, end - begin);
    if (sign == '-') {
      text = strip_bytes(text, false, true);
    } else if (sign != '+' && !variable) {
      auto newline = text.rfind('\n');
      std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      bool starts_line = line > 0 || begin == 0 || s_[begin - 1] == '\n';
      if (starts_line && strip_bytes(text.substr(line), true, false).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) {
      tokens_.push_back({TokenType::kData, position(begin), std::string(text), 0, 0});
    }
  }

  void lex_root() {
    std::size_t begin = p_;
    std::size_t tag = begin;
    for (;; ++tag) {
      tag = s_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= s_.size()) {
        emit_rest(begin);
        return;
      }
      char next = s_[tag + 1];
      if (next == '%' || next == '#' || next == '{') break;
    }
    p_ = tag;
    char kind = s_[tag + 1];
    char sign = 0;
    std::size_t after = 0;
    if (kind == '%' && raw_begin(sign, after)) {
      emit_data(begin, tag, sign, false);
      lex_raw(after);
      return;
    }
    after = tag + 2;
    sign = 0;
    if (after < s_.size() && (s_[after] == '-' || s_[after] == '+')) sign = s_[after++];
    emit_data(begin, tag, sign, kind == '{');
    if (kind == '#') {
      lex_comment(after);
      return;
    }
    bool variable = kind == '{';
    tokens_.push_back({variable ? TokenType::kVariableBegin : TokenType::kBlockBegin, position(),
                       variable ? "{{" : "{%", 0, 0});
    p_ = after;
    lex_tag(variable);
  }

  void emit_rest(std::size_t begin) {
    if (begin < s_.size()) {
      tokens_.push_back({TokenType::kData, position(begin), s_.substr(begin), 0, 0});
    }
    p_ = s_.size();
  }

  void lex_comment(std::size_t from) {
    auto end = s_.find("#}", from);
    if (end == std::string::npos) fail("missing end of comment tag '#}'");
    char before = end > from ? s_[end - 1] : '\0';
    p_ = end + 2;
    if (before == '-') {
      p_ = skip_space(p_);
    } else if (before != '+' && at(p_, "\n")) {
      ++p_;
    }
  }

  void lex_raw(std::size_t from) {
    for (auto tag = s_.find("{%", from); tag != std::string::npos; tag = s_.find("{%", tag + 2)) {
      std::size_t p = tag + 2;
      char sign = 0;
      if (at(p, "-") || at(p, "+")) sign = s_[p++];
      p = skip_space(p);
      if (!at(p, "endraw")) continue;
      p = skip_space(p + 6);
      std::size_t end;
      if (at(p, "-%}")) {
        end = skip_space(p + 3);
      } else if (at(p, "+%}")) {
        end = p + 3;
      } else if (at(p, "%}")) {
        end = at(p + 2, "\n") ? p + 3 : p + 2;
      } else {
        continue;
      }
      emit_raw_data(from, tag, sign);
      p_ = end;
      return;
    }
    fail("missing end of raw tag '{% endraw %}'");
  }
  void emit_raw_data(std::size_t from, std::size_t to, char sign) {
    emit_data(from, to, sign, false);
  }

  void lex_tag(bool variable) {
    std::string closers;  // the brackets that are open
    while (p_ < s_.size()) {
      if (closers.empty() && tag_end(variable)) return;
      auto c = decode_utf8(s_, p_);
      if (is_space(c.code_point)) {
        p_ += static_cast<std::size_t>(c.length);
      } else if (is_digit(s_[p_])) {
        lex_number();
      } else if (is_name_char(c.code_point)) {
        lex_name();
      } else if (s_[p_] == '\'' || s_[p_] == '"') {
        lex_string();
      } else {
        lex_operator(closers);
      }
    }
  }

  bool tag_end(bool variable) {
    std::string_view end = variable ? "}}" : "%}";
    std::size_t after = 0;
    if (at(p_, "-") && at(p_ + 1, end)) {
      after = skip_space(p_ + 3);
    } else if (!variable && at(p_, "+") && at(p_ + 1, end)) {
      after = p_ + 3;
    } else if (at(p_, end)) {
      after = !variable && at(p_ + 2, "\n") ? p_ + 3 : p_ + 2;
    } else {
      return false;
    }
    push(variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, std::string(end));
    p_ = after;
    return true;
  }

  void push(TokenType type, std::string text) {
    tokens_.push_back({type, position(), std::move(text), 0, 0});
  }

  static bool is_name_char(char32_t c) {
    if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
      case UTF8PROC_CATEGORY_LU:
      case UTF8PROC_CATEGORY_LL:
      case UTF8PROC_CATEGORY_LT:
      case UTF8PROC_CATEGORY_LM:
      case UTF8PROC_CATEGORY_LO:
      case UTF8PROC_CATEGORY_NL:
      case UTF8PROC_CATEGORY_MN:
      case UTF8PROC_CATEGORY_MC:
        return true;
      default:
        return false;
    }
  }

  void lex_name() {
    std::size_t end = p_;
    while (end < s_.size()) {
      auto c = decode_utf8(s_, end);
      if (!is_name_char(c.code_point)) break;
      end += static_cast<std::size_t>(c.length);
    }
    push(TokenType::kName, s_.substr(p_, end - p_));
    p_ = end;
  }

  /// Digits with single underscores between them; returns the end.
  template <class IsDigit>
  std::size_t digits(std::size_t p, IsDigit is, bool leading_underscore) const {
    std::size_t end = p;
    bool first = true;
    while (end < s_.size()) {
      std::size_t q = end;
      if (s_[q] == '_' && (!first || leading_underscore)) ++q;
      if (q >= s_.size() || !is(s_[q])) break;
      end = q + 1;
      first = false;
    }
    return end;
  }

  void lex_number() {
    std::size_t whole = digits(p_, is_digit, false);
    std::size_t end = whole;
    bool real = false;
    bool after_dot = p_ > 0 && s_[p_ - 1] == '.';
    if (!after_dot) {
      if (at(end, ".")) {
        auto fraction = digits(end + 1, is_digit, false);
        if (fraction > end + 1) {
          end = fraction;
          real = true;
        }
      }
      if (end < s_.size() && (s_[end] | 32) == 'e') {
        std::size_t p = end + 1;
        if (at(p, "+") || at(p, "-")) ++p;
        auto exponent = digits(p, is_digit, false);
        if (exponent > p) {
          end = exponent;
          real = true;
        }
      }
    }
    if (real) {
      std::string text;
      for (char c : s_.substr(p_, end - p_))
        if (c != '_') text.push_back(c);
      double value = 0;
      auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
      if (parsed.ec != std::errc()) fail("the number " + text + " is out of range");
      push(TokenType::kFloat, text);
      tokens_.back().real = value;
      p_ = end;
      return;
    }
    lex_integer(whole);
  }

  void lex_integer(std::size_t whole) {
    int base = 10;
    std::size_t from = p_, end = whole;
    auto based = [&](int b, auto is) {
      auto e = digits(p_ + 2, is, true);
      if (e <= p_ + 2) return;
      base = b;
      from = p_ + 2;
      end = e;
    };
    if (s_[p_] == '0') {
      char kind = p_ + 1 < s_.size() ? static_cast<char>(s_[p_ + 1] | 32) : '\0';
      if (kind == 'b') {
        based(2, [](char c) { return c == '0' || c == '1'; });
      } else if (kind == 'o') {
        based(8, [](char c) { return c >= '0' && c <= '7'; });
      } else if (kind == 'x') {
        based(16, [](char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); });
      }
      if (base == 10)
        end = digits(
            p_, [](char c) { return c == '0'; }, false);
    }
    Int value = 0;
    for (std::size_t i = from; i < end; ++i) {
      if (s_[i] == '_') continue;
      int digit = is_digit(s_[i]) ? s_[i] - '0' : (s_[i] | 32) - 'a' + 10;
      if (__builtin_mul_overflow(value, static_cast<Int>(base), &value) ||
          __builtin_add_overflow(value, static_cast<Int>(digit), &value)) {
        fail_at(position(), ErrorCode::kUnsupported, "the integer has more than 127 bits");
      }
    }
    push(TokenType::kInteger, s_.substr(p_, end - p_));
    tokens_.back().integer = value;
    p_ = end;
  }

  void lex_string() {
    char quote = s_[p_];
    std::size_t end = p_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) fail("a string is not closed");
    std::string text;
    for (std::size_t p = p_ + 1; p < end;) {
      if (s_[p] != '\\') {
        text.push_back(s_[p++]);
      } else {
        p = unescape(p + 1, end, text);
      }
    }
    push(TokenType::kString, std::move(text));
    p_ = end + 1;
  }

  /// The escape after a backslash, by Python's unicode-escape codec; returns where it ends.
  std::size_t unescape(std::size_t p, std::size_t end, std::string& out) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    char c = s_[p];
    if (c == '\n') return p + 1;
    if (auto i = kFrom.find(c); i != std::string_view::npos) {
      out.push_back(kTo[i]);
      return p + 1;
    }
    if (c >= '0' && c <= '7') {
      char32_t value = 0;
      int n = 0;
      for (; n < 3 && p < end && s_[p] >= '0' && s_[p] <= '7'; ++n, ++p)
        value = value * 8 + static_cast<char32_t>(s_[p] - '0');
      append_utf8(out, value);
      return p;
    }
    if (c == 'x') return hex_escape(p + 1, end, 2, out);
    if (c == 'u') return hex_escape(p + 1, end, 4, out);
    if (c == 'U') return hex_escape(p + 1, end, 8, out);
    if (c == 'N') {
      fail_at(position(), ErrorCode::kUnsupported, "string escape \\N{…} is not supported");
    }
    out.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x80) {
      out.push_back(c);
      return p + 1;
    }
    // jinja2 turns what is not ASCII into escapes first; behind a backslash they stay as text.
    auto ch = decode_utf8(s_, p);
    char buffer[16];
    auto hex = std::to_chars(buffer, buffer + 16, static_cast<std::uint32_t>(ch.code_point), 16);
    std::string digits_text(buffer, hex.ptr);
    std::size_t width = ch.code_point < 0x100 ? 2 : ch.code_point < 0x10000 ? 4 : 8;
    out += width == 2 ? "x" : width == 4 ? "u" : "U";
    out += std::string(width - digits_text.size(), '0') + digits_text;
    return p + static_cast<std::size_t>(ch.length);
  }

  std::size_t hex_escape(std::size_t p, std::size_t end, std::size_t width, std::string& out) {
    std::uint32_t value = 0;
    auto last = p + width;
    if (last > end) fail("a string escape is cut off");
    auto parsed = std::from_chars(s_.data() + p, s_.data() + last, value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != s_.data() + last) {
      fail("a string escape has a wrong digit");
    }
    if (value > 0x10FFFF) fail("a string escape is above U+10FFFF");
    if (value >= 0xD800 && value <= 0xDFFF) {
      fail_at(position(), ErrorCode::kUnsupported, "a string escape is half a surrogate pair");
    }
    append_utf8(out, value);
    return last;
  }

  void lex_operator(std::string& closers) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    std::string op;
    for (auto two : kTwo)
      if (at(p_, two)) op = two;
    if (op.empty() && kOne.find(s_[p_]) != std::string_view::npos) op = s_[p_];
    if (op.empty()) {
      auto c = decode_utf8(s_, p_);
      fail("unexpected character '" + s_.substr(p_, static_cast<std::size_t>(c.length)) + "'");
    }
    if (op == "{") closers.push_back('}');
    if (op == "(") closers.push_back(')');
    if (op == "[") closers.push_back(']');
    if (op == "}" || op == ")" || op == "]") {
      if (closers.empty()) fail("unexpected '" + op + "'");
      char expected = closers.back();
      closers.pop_back();
      if (op[0] != expected) {
        fail("unexpected '" + op + "', expected '" + std::string(1, expected) + "'");
      }
    }
    push(TokenType::kOperator, op);
    p_ += op.size();
  }

  std::string s_;
  std::size_t p_ = 0;
  std::size_t seen_ = 0;
  Position where_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) {
  // Newlines become \n, and one at the very end is dropped.
  std::string s;
  s.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      s.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      s.push_back(source[i]);
    }
  }
  if (s.ends_with('\n')) s.pop_back();
  return Lexer(std::move(s)).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kEof:
      return "the end of the template";
    case TokenType::kData:
      return "text";
    default: {
      std::string text = token.text.substr(0, 60);
      return "'" + replace_invalid_utf8(text) + "'";
    }
  }
}

}  // namespace munia::text::tmpl
