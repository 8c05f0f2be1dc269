// Making text of values: json.dumps, the % operator and str.format on strings, HTML escapes.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/template_eval.h"

namespace munia::text::tmpl {

Value Interp::escape_html(const Value& v) {
  if (auto s = v.str(); s && s->markup) return v;
  auto text = to_text(v);
  charge_bytes(5 * static_cast<std::uint64_t>(std::count_if(
                       text.bytes.begin(), text.bytes.end(),
                       [](char c) { return std::string_view("&<>\"'").find(c) != kNpos; })));
  MarkedText out;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    std::string_view to;
    switch (text.bytes[i]) {
      case '&':
        to = "&amp;";
        break;
      case '<':
        to = "&lt;";
        break;
      case '>':
        to = "&gt;";
        break;
      case '"':
        to = "&#34;";
        break;
      case '\'':
        to = "&#39;";
        break;
      default:
        append_slice(out, text, i, i + 1);
        continue;
    }
    append_user(out, to);
  }
  return str(std::move(out), true);
}

namespace {

class JsonWriter {
 public:
  JsonWriter(Interp& in, MarkedText& out) : in_(in), out_(out) {}
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multi_line = false;
  MarkedText indent;
  MarkedText item_separator;
  MarkedText key_separator;

  void write(const Value& v, std::uint32_t level) {
    in_.charge(1);
    charge_growth();
    if (level > kMaxValueDepth) raise("the value nests too deep for JSON", ErrorCode::kLimit);
    if (v.is_none()) return append_user(out_, "null");
    if (auto b = v.get<bool>()) return append_user(out_, *b ? "true" : "false");
    if (auto i = v.get<Int>()) return append_user(out_, format_int(*i));
    if (auto d = v.get<double>()) return append_user(out_, float_text(*d));
    if (auto s = v.str()) return write_string(s->text);
    if (auto d = v.dict()) return write_dict(*d, level);
    if (auto s = v.seq(); s && (s->flavor == Seq::kList || s->flavor == Seq::kTuple)) {
      return write_list(*s, level);
    }
    raise("Object of type " + std::string(type_name(v)) + " is not JSON serializable");
  }

 private:
  /// The output grows by more than what it is made of (indentation): counts as work, too.
  void charge_growth() {
    if (out_.bytes.size() > charged_) {
      in_.charge_bytes(out_.bytes.size() - charged_);
      charged_ = out_.bytes.size();
    }
  }

  static std::string float_text(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return format_float(d);
  }

  void new_line(std::uint32_t level) {
    if (!multi_line) return;
    append_user(out_, "\n");
    for (std::uint32_t i = 0; i < level; ++i) out_.append(indent);
    charge_growth();
  }

  void write_list(const Seq& list, std::uint32_t level) {
    if (list.items.empty()) return append_user(out_, "[]");
    append_user(out_, "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(item_separator);
      new_line(level + 1);
      write(list.items[i], level + 1);
    }
    new_line(level);
    append_user(out_, "]");
  }

  void write_dict(const Dict& dict, std::uint32_t level) {
    if (dict.items.empty()) return append_user(out_, "{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (auto& item : dict.items) items.push_back(&item);
    if (sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [&](auto a, auto b) { return in_.less(a->first, b->first); });
    }
    append_user(out_, "{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(item_separator);
      new_line(level + 1);
      write_key(items[i]->first);
      out_.append(key_separator);
      write(items[i]->second, level + 1);
    }
    new_line(level);
    append_user(out_, "}");
  }

  void write_key(const Value& key) {
    if (auto s = key.str()) return write_string(s->text);
    std::string text;
    if (auto b = key.get<bool>()) {
      text = *b ? "true" : "false";
    } else if (auto i = key.get<Int>()) {
      text = format_int(*i);
    } else if (auto d = key.get<double>()) {
      text = float_text(*d);
    } else if (key.is_none()) {
      text = "null";
    } else {
      raise("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
    write_string(MarkedText::from_user(text));
  }

  void append_unit(std::uint32_t unit) {
    std::string text = "\\u";
    for (int shift = 12; shift >= 0; shift -= 4)
      text.push_back("0123456789abcdef"[(unit >> shift) & 15]);
    append_user(out_, text);
  }

  void write_string(const MarkedText& text) {
    in_.charge_bytes(text.bytes.size());
    append_user(out_, "\"");
    const std::string& s = text.bytes;
    for (std::size_t p = 0; p < s.size();) {
      auto c = decode_utf8(s, p);
      auto next = p + static_cast<std::size_t>(c.length);
      char32_t cp = c.code_point;
      constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
      auto known = cp < 0x80 ? kEscaped.find(static_cast<char>(cp)) : kNpos;
      if (known != kNpos) {
        // The letter takes the place of the character; nobody's special token has one.
        append_user(out_, std::string{'\\', "\"\\nrtfb"[known]});
      } else if (cp < 0x20 || (ensure_ascii && cp > 0x7E && cp < 0x10000)) {
        append_unit(cp);
      } else if (ensure_ascii && cp >= 0x10000) {
        append_unit(0xD800 + ((cp - 0x10000) >> 10));
        append_unit(0xDC00 + ((cp - 0x10000) & 0x3FF));
      } else {
        append_slice(out_, text, p, next);
      }
      p = next;
    }
    append_user(out_, "\"");
    charged_ = std::max(charged_, out_.bytes.size());
  }

  Interp& in_;
  MarkedText& out_;
  std::size_t charged_ = 0;
};

}  // namespace

MarkedText Interp::to_json(const Value& v, Args& args) {
  auto bound = bind(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  MarkedText out;
  JsonWriter writer(*this, out);
  writer.ensure_ascii = bound[0] && truthy(*bound[0]);
  writer.sort_keys = bound[3] && truthy(*bound[3]);
  writer.item_separator = MarkedText::from_user(", ");
  writer.key_separator = MarkedText::from_user(": ");
  if (bound[1] && !bound[1]->is_none()) {
    writer.multi_line = true;
    writer.item_separator = MarkedText::from_user(",");
    Int width;
    if (auto s = bound[1]->str()) {
      if (s->text.bytes.size() > 1000) {
        raise("tojson's indent is above 1000 bytes", ErrorCode::kLimit);
      }
      writer.indent = s->text;
    } else if (bound[1]->as_int(width)) {
      if (width > 1000) raise("tojson's indent is above 1000", ErrorCode::kLimit);
      writer.indent = MarkedText::from_user(
          std::string(static_cast<std::size_t>(std::max(width, Int{0})), ' '));
    } else {
      raise("tojson's indent must be an integer or a string");
    }
  }
  if (bound[2] && !bound[2]->is_none()) {
    auto parts = items_of(*bound[2]);
    if (parts.size() != 2 || !parts[0].str() || !parts[1].str()) {
      raise("tojson's separators must be two strings");
    }
    writer.item_separator = parts[0].str()->text;
    writer.key_separator = parts[1].str()->text;
  }
  writer.write(v, 0);
  return out;
}

namespace {

struct PercentSpec {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  long width = 0;
  long precision = -1;
  char type = 's';
  std::string key;
  bool has_key = false;
};

long read_number(const std::string& f, std::size_t& p) {
  long n = 0;
  while (p < f.size() && f[p] >= '0' && f[p] <= '9') {
    n = n * 10 + (f[p++] - '0');
    if (n > 100000) raise("a width in a format is above 100000", ErrorCode::kLimit);
  }
  return n;
}

PercentSpec read_percent(const std::string& f, std::size_t& p) {
  PercentSpec spec;
  if (p < f.size() && f[p] == '(') {
    auto close = f.find(')', p);
    if (close == kNpos) raise("incomplete format key");
    spec.key = f.substr(p + 1, close - p - 1);
    if (spec.key.find('(') != kNpos) raise("brackets in a format key are not supported");
    spec.has_key = true;
    p = close + 1;
  }
  for (; p < f.size(); ++p) {
    if (f[p] == '-') {
      spec.left = true;
    } else if (f[p] == '0') {
      spec.zero = true;
    } else if (f[p] == '+') {
      spec.plus = true;
    } else if (f[p] == ' ') {
      spec.space = true;
    } else if (f[p] == '#') {
      spec.alternate = true;
    } else {
      break;
    }
  }
  spec.width = read_number(f, p);
  if (p < f.size() && f[p] == '.') spec.precision = read_number(f, ++p);
  if (p >= f.size()) raise("incomplete format");
  spec.type = f[p++];
  return spec;
}

/// A number's text without sign, for %d, %x, %o, %f; sets `negative`.
std::string percent_number(const PercentSpec& spec, const Value& v, bool& negative) {
  Int i = 0;
  bool integral = v.as_int(i);
  auto d = v.get<double>();
  if (!integral && !d) {
    raise(std::string("%") + spec.type + " format: a number is required, not " +
          std::string(type_name(v)));
  }
  if (spec.type == 'f' || spec.type == 'F') {
    double value = integral ? static_cast<double>(i) : *d;
    if (!std::isfinite(value)) {
      raise("%f of infinity or NaN is not supported", ErrorCode::kUnsupported);
    }
    negative = std::signbit(value);
    if (spec.precision > 500) raise("a precision in a format is above 500", ErrorCode::kLimit);
    char buffer[1000];
    int n =
        std::snprintf(buffer, sizeof buffer, "%.*f",
                      static_cast<int>(spec.precision < 0 ? 6 : spec.precision), std::fabs(value));
    return std::string(buffer, static_cast<std::size_t>(n));
  }
  if (!integral) {
    if (spec.type != 'd' && spec.type != 'i' && spec.type != 'u') {
      raise(std::string("%") + spec.type + " format: an integer is required, not float");
    }
    if (!std::isfinite(*d) || std::fabs(*d) > 0x1p100) raise("cannot convert float to integer");
    i = static_cast<Int>(*d);
  }
  negative = i < 0;
  std::string digits;
  int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : 10;
  do {
    int digit = static_cast<int>(i % base);
    digits.push_back(
        (spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[digit < 0 ? -digit : digit]);
    i /= base;
  } while (i != 0);
  while (static_cast<long>(digits.size()) < std::min(spec.precision, 1000L)) digits.push_back('0');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

MarkedText percent_one(Interp& in, const PercentSpec& spec, const Value& v) {
  if (spec.alternate) raise("# in a % format is not supported", ErrorCode::kUnsupported);
  MarkedText text;
  auto pad_to = [&](char fill, bool left) {
    long n = static_cast<long>(count_chars(text.bytes));
    if (n >= spec.width) return;
    auto spaces =
        MarkedText::from_user(std::string(static_cast<std::size_t>(spec.width - n), fill));
    if (left) {
      text.append(spaces);
    } else {
      spaces.append(text);
      text = std::move(spaces);
    }
  };
  if (spec.type == 's' || spec.type == 'r') {
    if (spec.type == 's') {
      text = in.to_text(v);
    } else {
      in.append_repr(text, v);
    }
    if (spec.precision >= 0) {
      text = text.substr(0, char_offset(text.bytes, static_cast<std::size_t>(spec.precision)));
    }
    pad_to(' ', spec.left);
    return text;
  }
  if (std::string_view("diuxXofF").find(spec.type) == kNpos) {
    raise(std::string("the format %") + spec.type + " is not supported", ErrorCode::kUnsupported);
  }
  bool negative = false;
  auto digits = percent_number(spec, v, negative);
  std::string sign = negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
  if (spec.zero && !spec.left) {
    auto width =
        static_cast<std::size_t>(std::max(0L, spec.width - static_cast<long>(sign.size())));
    if (digits.size() < width) digits.insert(0, std::string(width - digits.size(), '0'));
  }
  text = MarkedText::from_user(sign + digits);
  pad_to(' ', spec.left);
  return text;
}

}  // namespace

Value Interp::format_percent(const Str& format, const Value& args) {
  if (format.markup) raise("% on a safe string is not supported", ErrorCode::kUnsupported);
  const std::string& f = format.text.bytes;
  auto tuple = args.seq();
  if (tuple && tuple->flavor != Seq::kTuple) tuple = nullptr;
  std::size_t used = 0;
  MarkedText out;
  for (std::size_t p = 0; p < f.size();) {
    auto percent = f.find('%', p);
    auto end = percent == kNpos ? f.size() : percent;
    append_slice(out, format.text, p, end);
    if (percent == kNpos) break;
    p = percent + 1;
    charge(1);
    auto spec = read_percent(f, p);
    if (spec.type == '%') {
      append_slice(out, format.text, p - 1, p);
      continue;
    }
    Value value;
    if (spec.has_key) {
      auto dict = args.dict();
      if (!dict) raise("format requires a mapping");
      auto found = dict->find(std::string_view(spec.key));
      if (!found) raise("the format's key '" + spec.key + "' is missing");
      value = *found;
      used = 1;
    } else {
      std::size_t n = tuple ? tuple->items.size() : 1;
      if (used >= n) raise("not enough arguments for format string");
      value = tuple ? tuple->items[used] : args;
      ++used;
    }
    auto text = percent_one(*this, spec, value);
    charge_bytes(text.bytes.size());
    out.append(text);
  }
  bool all = args.dict() || (args.seq() && !tuple) || used == (tuple ? tuple->items.size() : 1);
  if (!all) raise("not all arguments converted during string formatting");
  return str(std::move(out));
}

Value Interp::format_braces(const Str& format, Args& args) {
  const std::string& f = format.text.bytes;
  MarkedText out;
  std::size_t automatic = 0;
  bool numbered = false;
  for (std::size_t p = 0; p < f.size();) {
    if (f[p] != '{' && f[p] != '}') {
      auto end = std::min(f.find_first_of("{}", p), f.size());
      append_slice(out, format.text, p, end);
      p = end;
      continue;
    }
    if (p + 1 < f.size() && f[p + 1] == f[p]) {
      append_slice(out, format.text, p, p + 1);
      p += 2;
      continue;
    }
    if (f[p] == '}') raise("Single '}' encountered in format string");
    auto end = f.find_first_of("{}", p + 1);
    if (end == kNpos || f[end] == '{') raise("expected '}' before end of string");
    auto field = f.substr(p + 1, end - p - 1);
    p = end + 1;
    charge(1);
    if (field.find_first_of(".[:!") != kNpos) {
      raise("'{" + field.substr(0, 60) + "}' in str.format is not supported",
            ErrorCode::kUnsupported);
    }
    bool digits = !field.empty() && std::all_of(field.begin(), field.end(),
                                                [](char c) { return c >= '0' && c <= '9'; });
    const Value* value = nullptr;
    if (field.empty() || digits) {
      if ((digits && automatic > 0) || (!digits && numbered)) {
        raise("cannot mix automatic and manual field numbering");
      }
      numbered = numbered || digits;
      if (field.size() > 6) raise("a field number of str.format is too big");
      std::size_t i = digits ? std::stoul(field) : automatic++;
      if (i >= args.positional.size()) raise("str.format has too few arguments");
      value = &args.positional[i];
    } else {
      for (auto& [key, item] : args.keywords)
        if (key == field) value = &item;
      if (!value) raise("str.format has no argument '" + field.substr(0, 60) + "'");
    }
    auto text = to_text(*value);
    charge_bytes(text.bytes.size());
    out.append(text);
  }
  return str(std::move(out));
}

}  // namespace munia::text::tmpl
