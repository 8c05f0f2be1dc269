// The methods of str that templates may call, with Python's arguments and results.
#include <algorithm>

#include "text/template_eval.h"

namespace munia::text::tmpl {

namespace {

const Str& need_str(const Value* value, const std::string& what) {
  auto s = value->str();
  if (!s) raise(what + " needs a string, not '" + std::string(type_name(*value)) + "'");
  return *s;
}
Int need_int(const Value* value, const std::string& what) {
  Int i;
  if (!value->as_int(i)) {
    raise(what + " needs an integer, not '" + std::string(type_name(*value)) + "'");
  }
  return i;
}
long limit_of(const Value* value, const std::string& what) {
  if (!value) return -1;
  Int i = need_int(value, what);
  constexpr Int kMost = 1L << 40;
  return i < 0 ? -1 : static_cast<long>(std::min(i, kMost));
}

/// The byte range [begin, end) of Python's optional start and stop arguments, in code points.
/// False when start lies behind stop: then nothing is found, not even the empty string.
bool byte_range(std::string_view text, const Value* start, const Value* stop,
                const std::string& what, std::size_t& begin, std::size_t& end) {
  begin = 0;
  end = text.size();
  if (!start && !stop) return true;
  Int n = static_cast<Int>(count_chars(text));
  auto bound = [&](const Value* v, Int otherwise) {
    if (!v || v->is_none()) return otherwise;
    Int i = need_int(v, what);
    return i < 0 ? std::max(i + n, Int{0}) : i;
  };
  Int from = bound(start, 0), to = std::min(bound(stop, n), n);
  if (from > to) return false;
  begin = char_offset(text, static_cast<std::size_t>(from));
  end = char_offset(text, static_cast<std::size_t>(to));
  return true;
}

std::size_t count_hits(std::string_view text, std::string_view part) {
  if (part.empty()) return count_chars(text) + 1;
  std::size_t hits = 0;
  for (auto at = find_bytes(text, part); at != kNpos; at = find_bytes(text, part, at + part.size()))
    ++hits;
  return hits;
}

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

MarkedText pad(const MarkedText& text, std::size_t left, std::size_t right,
               const MarkedText& fill) {
  MarkedText out;
  for (; left > 0; --left) out.append(fill);
  out.append(text);
  for (; right > 0; --right) out.append(fill);
  return out;
}

bool class_of(const std::string& name, CharClass& wanted) {
  constexpr std::pair<std::string_view, CharClass> kTable[] = {
      {"isdigit", CharClass::kDigit},     {"isalpha", CharClass::kAlpha},
      {"isspace", CharClass::kSpace},     {"isalnum", CharClass::kAlnum},
      {"isnumeric", CharClass::kNumeric}, {"isdecimal", CharClass::kDecimal}};
  for (auto& [key, value] : kTable) {
    if (key == name) return wanted = value, true;
  }
  return false;
}

bool case_of(const std::string& name, Case& how) {
  constexpr std::pair<std::string_view, Case> kTable[] = {{"upper", Case::kUpper},
                                                          {"lower", Case::kLower},
                                                          {"title", Case::kTitle},
                                                          {"capitalize", Case::kCapitalize},
                                                          {"swapcase", Case::kSwap}};
  for (auto& [key, value] : kTable) {
    if (key == name) return how = value, true;
  }
  return false;
}

Value part_list(Interp& in, std::vector<MarkedText> parts, bool markup) {
  std::vector<Value> items;
  in.charge(parts.size());
  for (auto& part : parts) items.push_back(in.str(std::move(part), markup));
  return make_list(std::move(items));
}

/// find, rfind, index, rindex, count, startswith, endswith.
Value search(Interp& in, const Str& self, const std::string& name, Args& args) {
  auto what = "str." + name;
  auto bound = in.bind(args, what, {"sub", "start", "end"}, 1);
  std::string_view text = self.text.bytes;
  std::size_t begin = 0, end = 0;
  in.charge(text.size() / 64);
  bool in_range = byte_range(text, bound[1], bound[2], what, begin, end);
  auto range = in_range ? text.substr(begin, end - begin) : std::string_view();
  if (name == "startswith" || name == "endswith") {
    auto holds = [&](const Str& part) {
      std::string_view p = part.text.bytes;
      return in_range && (name == "startswith" ? range.starts_with(p) : range.ends_with(p));
    };
    auto tuple = bound[0]->seq();
    if (!tuple || tuple->flavor != Seq::kTuple) return Value(holds(need_str(bound[0], what)));
    in.charge(tuple->items.size());
    bool any = false;
    for (auto& item : tuple->items) any = any || holds(need_str(&item, what));
    return Value(any);
  }
  std::string_view part = need_str(bound[0], what).text.bytes;
  if (name == "count") return Value::from_size(in_range ? count_hits(range, part) : 0);
  bool right = name[0] == 'r';
  if (right) in.charge(range.size() * (part.size() + 1) / 256);  // rfind may be quadratic
  auto hit = !in_range ? kNpos : right ? range.rfind(part) : find_bytes(range, part);
  if (hit != kNpos) return Value::from_size(count_chars(text.substr(0, begin + hit)));
  if (name == "find" || name == "rfind") return Value(Int{-1});
  raise("substring not found");
}

Value pad_method(Interp& in, const Str& self, const std::string& name, Args& args) {
  auto what = "str." + name;
  bool zeros = name == "zfill";
  auto bound =
      zeros ? in.bind(args, what, {"width"}, 1) : in.bind(args, what, {"width", "fillchar"}, 1);
  Int width = need_int(bound[0], what);
  MarkedText fill = MarkedText::from_user(zeros ? "0" : " ");
  if (!zeros && bound[1]) {
    fill = need_str(bound[1], what).text;
    if (count_chars(fill.bytes) != 1) raise("the fill character must be one character");
  }
  Int n = static_cast<Int>(count_chars(self.text.bytes));
  if (width <= n) return in.str(self.text);
  if (width - n > 0x7FFFFFFF) raise("the width is too big", ErrorCode::kLimit);
  auto padding = static_cast<std::size_t>(width - n);
  in.charge(padding);
  in.charge_bytes(padding * fill.bytes.size());
  if (zeros) {
    std::size_t sign =
        !self.text.bytes.empty() && (self.text.bytes[0] == '-' || self.text.bytes[0] == '+');
    MarkedText out = self.text.substr(0, sign);
    out.append(pad(self.text.substr(sign, kNpos), padding, 0, fill));
    return in.str(std::move(out));
  }
  std::size_t left = name == "rjust" ? padding : 0;
  if (name == "center") {  // Python puts the odd one by its own rule
    left = padding / 2 + (padding & static_cast<std::size_t>(width) & 1);
  }
  return in.str(pad(self.text, left, padding - left, fill));
}

Value split_method(Interp& in, const Str& self, const std::string& name, Args& args) {
  auto what = "str." + name;
  if (name == "splitlines") {
    auto bound = in.bind(args, what, {"keepends"});
    return part_list(in, split_lines(self.text, bound[0] && Interp::truthy(*bound[0])),
                     self.markup);
  }
  auto bound = in.bind(args, what, {"sep", "maxsplit"});
  const std::string* separator = nullptr;
  if (bound[0] && !bound[0]->is_none()) {
    separator = &need_str(bound[0], what).text.bytes;
    if (separator->empty()) raise("empty separator");
    if (name == "rsplit") in.charge(self.text.bytes.size() * separator->size() / 256);
  }
  return part_list(in, split(self.text, separator, limit_of(bound[1], what), name == "rsplit"),
                   self.markup);
}

Value partition(Interp& in, const Str& self, const std::string& name, Args& args) {
  auto what = "str." + name;
  auto bound = in.bind(args, what, {"sep"}, 1);
  auto& separator = need_str(bound[0], what).text;
  if (separator.bytes.empty()) raise("empty separator");
  auto& text = self.text;
  bool right = name == "rpartition";
  if (right) in.charge(text.bytes.size() * separator.bytes.size() / 256);
  auto hit = right ? text.bytes.rfind(separator.bytes) : find_bytes(text.bytes, separator.bytes);
  if (hit == kNpos) {
    auto whole = in.str(text);
    auto empty = in.str({});
    return right ? make_tuple({empty, empty, whole}) : make_tuple({whole, empty, empty});
  }
  auto after = hit + separator.bytes.size();
  return make_tuple(
      {in.str(text.substr(0, hit)), in.str(separator), in.str(text.substr(after, kNpos))});
}

}  // namespace

Value Interp::call_str_method(const Str& self, const std::string& name, Args& args) {
  auto what = "str." + name;
  auto& text = self.text;
  charge(1 + text.bytes.size() / 64);
  if (!args.keywords.empty() && !is_one_of(name, {"split", "rsplit", "splitlines", "format"})) {
    raise(what + " takes no keyword argument");
  }
  if (self.markup &&
      is_one_of(name, {"replace", "join", "format", "zfill", "ljust", "rjust", "center",
                       "partition", "rpartition", "removeprefix", "removesuffix"})) {
    raise(what + " of a safe string is not supported", ErrorCode::kUnsupported);
  }
  if (is_one_of(name, {"strip", "lstrip", "rstrip"})) {
    auto bound = bind(args, what, {"chars"});
    const std::string* chars = nullptr;
    if (bound[0] && !bound[0]->is_none()) {
      chars = &need_str(bound[0], what).text.bytes;
      charge(chars->size() * (text.bytes.size() + 1) / 256);
    }
    return str(strip(text, chars, name != "rstrip", name != "lstrip"), self.markup);
  }
  Case how;
  if (case_of(name, how)) {
    bind(args, what, {});
    charge(text.bytes.size() / 8);
    return str(change_case(text, how), self.markup);
  }
  CharClass wanted;
  if (class_of(name, wanted)) {
    bind(args, what, {});
    return Value(all_of_class(text.bytes, wanted));
  }
  if (name == "isupper" || name == "islower") {
    bind(args, what, {});
    return Value(is_cased(text.bytes, name == "isupper"));
  }
  if (name == "isascii") {
    bind(args, what, {});
    return Value(std::all_of(text.bytes.begin(), text.bytes.end(),
                             [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  }
  if (name == "join") {
    auto bound = bind(args, what, {"iterable"}, 1);
    MarkedText out;
    bool first = true;
    for (auto& item : items_of(*bound[0])) {
      auto& part = need_str(&item, what).text;
      charge_bytes(part.bytes.size() + text.bytes.size());
      if (!std::exchange(first, false)) out.append(text);
      out.append(part);
    }
    return make_str(std::move(out));
  }
  if (name == "replace") {
    auto bound = bind(args, what, {"old", "new", "count"}, 2);
    auto& from = need_str(bound[0], what).text.bytes;
    auto& to = need_str(bound[1], what).text;
    long limit = limit_of(bound[2], what);
    std::size_t hits = count_hits(text.bytes, from);
    if (limit >= 0) hits = std::min(hits, static_cast<std::size_t>(limit));
    charge(hits);
    charge_bytes(hits * to.bytes.size());
    return str(replace(text, from, to, limit));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    auto bound = bind(args, what, {"affix"}, 1);
    auto& affix = need_str(bound[0], what).text.bytes;
    if (name == "removeprefix" && text.bytes.starts_with(affix)) {
      return str(text.substr(affix.size(), kNpos));
    }
    if (name == "removesuffix" && text.bytes.ends_with(affix)) {
      return str(text.substr(0, text.bytes.size() - affix.size()));
    }
    return str(text);
  }
  if (is_one_of(name, {"split", "rsplit", "splitlines"})) {
    return split_method(*this, self, name, args);
  }
  if (is_one_of(name, {"partition", "rpartition"})) return partition(*this, self, name, args);
  if (is_one_of(name, {"zfill", "ljust", "rjust", "center"})) {
    return pad_method(*this, self, name, args);
  }
  if (name == "format") return format_braces(self, args);
  return search(*this, self, name, args);
}

}  // namespace munia::text::tmpl
