// The filters: `value | name(arguments)`.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"
#include "text/template_eval.h"

namespace munia::text::tmpl {

namespace {

Value as_str(Interp& in, const Value& v) { return v.str() ? v : in.str(in.to_text(v)); }

bool flag(const Value* v) { return v && Interp::truthy(*v); }

/// Looks up "a.b.0" (or an integer) in an item, as jinja2's attribute arguments do.
Value lookup(Interp& in, Value item, const Value& attribute, const Value* otherwise) {
  auto step = [&](const Value& key) {
    item = in.get_item(item, key);
    if (otherwise && !otherwise->is_none() && item.is_undefined()) item = *otherwise;
  };
  if (attribute.is_none()) return item;
  auto path = attribute.str();
  if (!path) {
    step(attribute);
    return item;
  }
  std::string dot = ".";
  for (auto& part : split(path->text, &dot, -1, false)) {
    in.charge(1);
    const std::string& s = part.bytes;
    bool digits = !s.empty() && s.size() < 19 &&
                  std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
    step(digits ? Value(static_cast<Int>(std::stoll(s))) : make_str(part));
  }
  return item;
}

Value ignore_case(Interp& in, const Value& v) {
  auto s = v.str();
  return s ? in.str(change_case(s->text, Case::kLower)) : v;
}

/// Sorts items by keys, stably. Raises where Python cannot order the keys.
std::vector<Value> sorted(Interp& in, const std::vector<Value>& items,
                          const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? in.less(keys[b], keys[a]) : in.less(keys[a], keys[b]);
  });
  std::vector<Value> out;
  for (auto i : order) out.push_back(items[i]);
  return out;
}

Value change(Interp& in, const Value& v, Args& args, Case how, std::string_view name) {
  in.bind(args, name, {});
  auto s = as_str(in, v);
  in.charge(s.str()->text.bytes.size() / 8);
  return in.str(change_case(s.str()->text, how), s.str()->markup);
}
Value f_upper(Interp& in, const Value& v, Args& a) {
  return change(in, v, a, Case::kUpper, "upper");
}
Value f_lower(Interp& in, const Value& v, Args& a) {
  return change(in, v, a, Case::kLower, "lower");
}
Value f_capitalize(Interp& in, const Value& v, Args& a) {
  return change(in, v, a, Case::kCapitalize, "capitalize");
}

Value f_title(Interp& in, const Value& v, Args& args) {
  in.bind(args, "title", {});
  auto value = as_str(in, v);
  auto& text = value.str()->text;
  in.charge(text.bytes.size() / 8);
  MarkedText out;
  // A word begins behind whitespace or one of -({[<.
  const std::string& s = text.bytes;
  auto begins = [&](std::size_t p) {
    char32_t c = decode_utf8(s, p).code_point;
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (std::size_t p = 0; p < s.size();) {
    std::size_t end = p;
    bool separator = begins(p);
    while (end < s.size() && begins(end) == separator)
      end += static_cast<std::size_t>(decode_utf8(s, end).length);
    if (separator) {
      append_slice(out, text, p, end);
    } else {
      auto first = p + static_cast<std::size_t>(decode_utf8(s, p).length);
      out.append(change_case(slice_bytes(text, p, first), Case::kUpper));
      out.append(change_case(slice_bytes(text, first, end), Case::kLower));
    }
    p = end;
  }
  return in.str(std::move(out), value.str()->markup);
}

Value f_trim(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "trim", {"chars"});
  auto value = as_str(in, v);
  Args strip_args;
  if (bound[0]) strip_args.positional.push_back(*bound[0]);
  auto strip_method = in.get_attr(value, "strip");
  return in.call(strip_method, strip_args);
}

Value f_string(Interp& in, const Value& v, Args& args) {
  in.bind(args, "string", {});
  return as_str(in, v);
}

Value f_replace(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "replace", {"old", "new", "count"}, 2);
  Args plain;
  for (int i = 0; i < 2; ++i) {
    plain.positional.push_back(in.str(in.to_text(*bound[static_cast<std::size_t>(i)])));
  }
  if (bound[2] && !bound[2]->is_none()) plain.positional.push_back(*bound[2]);
  auto text = in.str(in.to_text(v));
  return in.call(in.get_attr(text, "replace"), plain);
}

Value f_join(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "join", {"d", "attribute"});
  MarkedText separator;
  if (bound[0]) separator = in.to_text(*bound[0]);
  MarkedText out;
  bool first = true;
  for (auto& item : in.items_of(v)) {
    if (!std::exchange(first, false)) out.append(separator);
    bool by = bound[1] && !bound[1]->is_none();
    out.append(in.to_text(by ? lookup(in, item, *bound[1], nullptr) : item));
    in.charge_bytes(separator.bytes.size());
  }
  return in.str(std::move(out));
}

Value f_length(Interp& in, const Value& v, Args& args) {
  in.bind(args, "length", {});
  return Value(in.length(v));
}

Value f_default(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "default", {"default_value", "boolean"});
  if (v.is_undefined() || (flag(bound[1]) && !Interp::truthy(v))) {
    return bound[0] ? *bound[0] : make_template_str("");
  }
  return v;
}

Value f_first(Interp& in, const Value& v, Args& args) {
  in.bind(args, "first", {});
  if (auto it = v.get<IteratorPtr>()) {
    auto& source = **it;
    if (source.pos < source.items.size()) return source.items[source.pos++];
    return make_undefined("No first item, sequence was empty.");
  }
  if (v.str() || (v.seq() && v.seq()->flavor <= Seq::kRange)) {
    auto item = in.get_item(v, Value(Int{0}));
    return item.is_undefined() && in.length(v) == 0
               ? make_undefined("No first item, sequence was empty.")
               : item;
  }
  auto items = in.items_of(v);
  return items.empty() ? make_undefined("No first item, sequence was empty.") : items.front();
}

Value f_last(Interp& in, const Value& v, Args& args) {
  in.bind(args, "last", {});
  if (v.get<IteratorPtr>()) raise("'generator' object is not reversible");
  auto items = in.items_of(v);
  return items.empty() ? make_undefined("No last item, sequence was empty.") : items.back();
}

Value f_list(Interp& in, const Value& v, Args& args) {
  in.bind(args, "list", {});
  return make_list(in.items_of(v));
}

Value f_items(Interp& in, const Value& v, Args& args) {
  in.bind(args, "items", {});
  std::vector<Value> items;
  if (v.is_undefined()) return make_iterator({});
  auto d = v.dict();
  if (!d) raise("Can only get item pairs from a mapping.");
  in.charge(d->items.size());
  for (auto& [key, value] : d->items) items.push_back(make_tuple({key, value}));
  return make_iterator(std::move(items));
}

Value f_tojson(Interp& in, const Value& v, Args& args) { return in.str(in.to_json(v, args)); }

Value f_safe(Interp& in, const Value& v, Args& args) {
  in.bind(args, "safe", {});
  return in.str(in.to_text(v), true);
}
Value f_escape(Interp& in, const Value& v, Args& args) {
  in.bind(args, "escape", {});
  return in.escape_html(v);
}

bool parse_python_int(std::string_view text, int base, Int& out) {
  text = strip_bytes(text, true, true);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    char kind = static_cast<char>(text[1] | 32);
    int prefix = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      text.remove_prefix(2);
      if (text[0] == '_') text.remove_prefix(1);
    }
  }
  if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != kNpos) return false;
  }
  out = 0;
  bool digit_before = false;
  for (char c : text) {
    if (c == '_') {
      if (!digit_before) return false;
      digit_before = false;
      continue;
    }
    int digit = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                     : 99;
    if (digit >= base) return false;
    if (__builtin_mul_overflow(out, static_cast<Int>(base), &out) ||
        __builtin_add_overflow(out, static_cast<Int>(digit), &out)) {
      raise("an integer has more than 127 bits", ErrorCode::kUnsupported);
    }
    digit_before = true;
  }
  if (negative) out = -out;
  return digit_before;
}

bool parse_python_float(std::string_view text, double& out) {
  text = strip_bytes(text, true, true);
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      clean.push_back(text[i]);
      continue;
    }
    auto digit = [&](std::size_t k) { return k < text.size() && text[k] >= '0' && text[k] <= '9'; };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return false;
  }
  bool negative = false;
  std::string_view s = clean;
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
    negative = s[0] == '-';
    s.remove_prefix(1);
  }
  if (s.empty() || s[0] == '-' || s[0] == '+') return false;
  auto parsed = std::from_chars(s.data(), s.data() + s.size(), out);
  if (parsed.ptr != s.data() + s.size() || s.find('(') != kNpos) return false;
  if (parsed.ec == std::errc::result_out_of_range) {
    out = std::strtod(std::string(s).c_str(), nullptr);  // infinity or zero, as in Python
  } else if (parsed.ec != std::errc()) {
    return false;
  }
  if (negative) out = -out;
  return true;
}

Value f_int(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "int", {"default", "base"});
  Value otherwise = bound[0] ? *bound[0] : Value(Int{0});
  Int base = 10;
  if (bound[1] && !bound[1]->as_int(base)) raise("int's base must be an integer");
  Int i;
  if (v.as_int(i)) return Value(i);
  if (auto u = v.get<UndefinedPtr>()) raise((*u)->message);
  double d = 0;
  if (auto s = v.str()) {
    in.charge(s->text.bytes.size() / 8);
    bool known_base = base == 0 || (base >= 2 && base <= 36);
    if (known_base && parse_python_int(s->text.bytes, static_cast<int>(base), i)) return Value(i);
    if (!parse_python_float(s->text.bytes, d)) return otherwise;
  } else if (v.is_float()) {
    d = *v.get<double>();
    if (std::isinf(d)) return otherwise;
  } else {
    return otherwise;
  }
  if (!std::isfinite(d)) return otherwise;
  if (std::fabs(d) >= 0x1p126) raise("an integer has more than 127 bits", ErrorCode::kUnsupported);
  return Value(static_cast<Int>(d));
}

Value f_float(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "float", {"default"});
  Value otherwise = bound[0] ? *bound[0] : Value(0.0);
  Int i;
  if (v.as_int(i)) return Value(static_cast<double>(i));
  if (v.is_float()) return v;
  if (auto u = v.get<UndefinedPtr>()) raise((*u)->message);
  double d = 0;
  if (auto s = v.str()) {
    in.charge(s->text.bytes.size() / 8);
    if (parse_python_float(s->text.bytes, d)) return Value(d);
  }
  return otherwise;
}

Value f_abs(Interp& in, const Value& v, Args& args) {
  in.bind(args, "abs", {});
  Int i;
  if (v.as_int(i)) return i < 0 ? in.binary(Op::kSub, Value(Int{0}), Value(i)) : Value(i);
  if (auto d = v.get<double>()) return Value(std::fabs(*d));
  if (auto u = v.get<UndefinedPtr>()) raise((*u)->message);
  raise("bad operand type for abs(): '" + std::string(type_name(v)) + "'");
}

Value f_round(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "round", {"precision", "method"});
  Int precision = 0;
  if (bound[0] && !bound[0]->as_int(precision)) raise("round's precision must be an integer");
  if (precision < -20 || precision > 20) {
    raise("round's precision is not within -20 and 20", ErrorCode::kUnsupported);
  }
  std::string method = bound[1] ? in.to_text(*bound[1]).bytes : "common";
  if (auto u = v.get<UndefinedPtr>()) raise((*u)->message);
  if (!v.is_number()) raise("round needs a number, not '" + std::string(type_name(v)) + "'");
  Int i;
  bool integral = v.as_int(i);
  if (method == "ceil" || method == "floor") {
    double scale = std::pow(10.0, static_cast<double>(precision));
    double x = (integral ? static_cast<double>(i) : *v.get<double>()) * scale;
    if (!std::isfinite(x)) raise("cannot convert infinity or NaN to integer");
    return Value((method == "ceil" ? std::ceil(x) : std::floor(x)) / scale);
  }
  if (method != "common") raise("method must be common, ceil or floor");
  if (integral) {
    if (precision >= 0) return Value(i);
    if (i > static_cast<Int>(1) << 120 || i < -(static_cast<Int>(1) << 120)) {
      raise("the integer is too big to be rounded", ErrorCode::kUnsupported);
    }
    Int unit = 1;
    for (Int k = 0; k < -precision; ++k) unit *= 10;
    Int rest = i % unit;
    if (rest < 0) rest += unit;
    Int down = i - rest;
    bool up = rest * 2 > unit || (rest * 2 == unit && (down / unit) % 2 != 0);
    return Value(up ? down + unit : down);
  }
  double x = *v.get<double>();
  if (!std::isfinite(x)) return v;
  if (precision < 0) raise("round of a float to tens is not supported", ErrorCode::kUnsupported);
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), x);
  return Value(std::strtod(buffer, nullptr));
}

Value f_sum(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "sum", {"attribute", "start"});
  Value total = bound[1] ? *bound[1] : Value(Int{0});
  if (total.str()) raise("sum() can't sum strings");
  for (auto& item : in.items_of(v)) {
    bool by = bound[0] && !bound[0]->is_none();
    total = in.binary(Op::kAdd, total, by ? lookup(in, item, *bound[0], nullptr) : item);
  }
  return total;
}

Value extreme(Interp& in, const Value& v, Args& args, bool largest) {
  auto bound = in.bind(args, largest ? "max" : "min", {"case_sensitive", "attribute"});
  auto items = in.items_of(v);
  if (items.empty()) return make_undefined("No aggregated item, sequence was empty.");
  auto key = [&](const Value& item) {
    auto k = lookup(in, item, bound[1] ? *bound[1] : Value(), nullptr);
    return flag(bound[0]) ? k : ignore_case(in, k);
  };
  std::size_t best = 0;
  Value best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    auto k = key(items[i]);
    if (largest ? in.less(best_key, k) : in.less(k, best_key)) {
      best = i;
      best_key = k;
    }
  }
  return items[best];
}
Value f_min(Interp& in, const Value& v, Args& a) { return extreme(in, v, a, false); }
Value f_max(Interp& in, const Value& v, Args& a) { return extreme(in, v, a, true); }

Value f_sort(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "sort", {"reverse", "case_sensitive", "attribute"});
  auto items = in.items_of(v);
  std::vector<Value> paths;
  if (bound[2] && bound[2]->str()) {
    std::string comma = ",";
    for (auto& part : split(bound[2]->str()->text, &comma, -1, false))
      paths.push_back(make_str(part));
  } else {
    paths.push_back(bound[2] ? *bound[2] : Value());
  }
  std::vector<Value> keys;
  for (auto& item : items) {
    std::vector<Value> parts;
    for (auto& path : paths) {
      auto k = lookup(in, item, path, nullptr);
      parts.push_back(flag(bound[1]) ? k : ignore_case(in, k));
    }
    keys.push_back(make_list(std::move(parts)));
  }
  return make_list(sorted(in, items, keys, flag(bound[0])));
}

Value f_dictsort(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "dictsort", {"case_sensitive", "by", "reverse"});
  auto d = v.dict();
  if (!d) raise("dictsort needs a mapping, not '" + std::string(type_name(v)) + "'");
  std::string by = bound[1] ? in.to_text(*bound[1]).bytes : "key";
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  in.charge(d->items.size());
  std::vector<Value> items, keys;
  for (auto& [key, value] : d->items) {
    items.push_back(make_tuple({key, value}));
    auto& k = by == "key" ? key : value;
    keys.push_back(flag(bound[0]) ? k : ignore_case(in, k));
  }
  return make_list(sorted(in, items, keys, flag(bound[2])));
}

Value f_unique(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "unique", {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> out;
  for (auto& item : in.items_of(v)) {
    auto k = lookup(in, item, bound[1] ? *bound[1] : Value(), nullptr);
    if (!flag(bound[0])) k = ignore_case(in, k);
    if (!is_hashable(k)) raise("unhashable type: '" + std::string(type_name(k)) + "'");
    std::uint64_t work = 0;
    if (!seen.find(k, work)) {
      seen.set(k, Value(), work);
      out.push_back(item);
    }
    in.charge(work);
  }
  return make_iterator(std::move(out));
}

Value f_groupby(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  auto items = in.items_of(v);
  std::vector<Value> keys;
  auto key = [&](const Value& item) {
    auto k = lookup(in, item, *bound[0], bound[1]);
    return flag(bound[2]) ? k : ignore_case(in, k);
  };
  for (auto& item : items) keys.push_back(key(item));
  items = sorted(in, items, keys, false);
  std::vector<Value> out;
  for (std::size_t i = 0; i < items.size();) {
    auto k = key(items[i]);
    std::vector<Value> group;
    std::size_t from = i;
    for (; i < items.size() && in.equal(key(items[i]), k); ++i) group.push_back(items[i]);
    if (i == from) ++i;  // NaN equals nothing
    auto shown = lookup(in, items[from], *bound[0], bound[1]);
    out.push_back(make_tuple({shown, make_list(std::move(group))}));
  }
  return make_list(std::move(out));
}

Value f_reverse(Interp& in, const Value& v, Args& args) {
  in.bind(args, "reverse", {});
  if (v.str()) return in.slice(v, Value(), Value(), Value(Int{-1}));
  auto items = in.items_of(v);
  std::reverse(items.begin(), items.end());
  return make_iterator(std::move(items));
}

Value f_batch(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "batch", {"linecount", "fill_with"}, 1);
  Int n;
  if (!bound[0]->as_int(n) || n < 1) raise("batch needs a count above 0");
  std::vector<Value> out, row;
  for (auto& item : in.items_of(v)) {
    row.push_back(item);
    if (static_cast<Int>(row.size()) == n) out.push_back(make_list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (bound[1] && !bound[1]->is_none()) {
      if (n > 1'000'000) raise("batch's count is above 1000000", ErrorCode::kLimit);
      in.charge(static_cast<std::uint64_t>(n));
      row.resize(static_cast<std::size_t>(n), *bound[1]);
    }
    out.push_back(make_list(std::move(row)));
  }
  return make_iterator(std::move(out));
}

Value f_slice(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "slice", {"slices", "fill_with"}, 1);
  Int n;
  if (!bound[0]->as_int(n) || n < 1) raise("slice needs a number above 0");
  if (n > 1'000'000) raise("slice's number is above 1000000", ErrorCode::kLimit);
  auto items = in.items_of(v);
  in.charge(static_cast<std::uint64_t>(n));
  auto count = static_cast<std::size_t>(n);
  std::size_t each = items.size() / count, extra = items.size() % count, at = 0;
  std::vector<Value> out;
  for (std::size_t k = 0; k < count; ++k) {
    std::size_t take = each + (k < extra ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(at + take));
    at += take;
    if (bound[1] && !bound[1]->is_none() && k >= extra) part.push_back(*bound[1]);
    out.push_back(make_list(std::move(part)));
  }
  return make_iterator(std::move(out));
}

Value f_map(Interp& in, const Value& v, Args& args) {
  std::vector<Value> out;
  if (!Interp::truthy(v)) return make_iterator({});
  if (args.positional.empty()) {
    auto bound = in.bind(args, "map", {"attribute", "default"});
    if (!bound[0]) raise("map requires a filter argument");
    for (auto& item : in.items_of(v)) out.push_back(lookup(in, item, *bound[0], bound[1]));
    return make_iterator(std::move(out));
  }
  auto name = args.positional[0].str();
  if (!name) raise("map needs the name of a filter");
  auto filter = name->text.bytes;
  DepthGuard depth(in);  // a map of maps has no expression that would count it
  for (auto& item : in.items_of(v)) {
    Args rest = args;
    rest.positional.erase(rest.positional.begin());
    in.charge(rest.positional.size() + rest.keywords.size());
    out.push_back(in.call_filter(filter, item, rest));
  }
  return make_iterator(std::move(out));
}

Value select_or_reject(Interp& in, const Value& v, Args& args, bool by_attribute, bool keep) {
  if (!Interp::truthy(v)) return make_iterator({});
  std::size_t from = by_attribute ? 1 : 0;
  if (args.positional.size() < from) raise("Missing parameter for attribute name");
  Value attribute;
  if (by_attribute) attribute = args.positional[0];
  std::vector<Value> out;
  bool tested = args.positional.size() > from;
  std::string test;
  if (tested) {
    auto name = args.positional[from].str();
    if (!name) raise("select and reject need the name of a test");
    test = name->text.bytes;
  }
  DepthGuard depth(in);
  for (auto& item : in.items_of(v)) {
    auto value = by_attribute ? lookup(in, item, attribute, nullptr) : item;
    bool holds;
    if (tested) {
      Args rest = args;
      rest.positional.erase(rest.positional.begin(),
                            rest.positional.begin() + static_cast<std::ptrdiff_t>(from + 1));
      in.charge(rest.positional.size() + rest.keywords.size());
      holds = in.call_test(test, value, rest);
    } else {
      holds = Interp::truthy(value);
    }
    if (holds == keep) out.push_back(item);
  }
  return make_iterator(std::move(out));
}
Value f_select(Interp& in, const Value& v, Args& a) {
  return select_or_reject(in, v, a, false, true);
}
Value f_reject(Interp& in, const Value& v, Args& a) {
  return select_or_reject(in, v, a, false, false);
}
Value f_selectattr(Interp& in, const Value& v, Args& a) {
  return select_or_reject(in, v, a, true, true);
}
Value f_rejectattr(Interp& in, const Value& v, Args& a) {
  return select_or_reject(in, v, a, true, false);
}

Value f_attr(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "attr", {"name"}, 1);
  auto name = bound[0]->str();
  if (!name) raise("attr needs a string");
  if (auto u = v.get<UndefinedPtr>()) raise((*u)->message);
  if (v.dict()) {  // attributes of the object only, never its keys
    auto method = in.get_attr(make_dict({}), name->text.bytes);
    return method.is_undefined() ? method : in.get_attr(v, name->text.bytes);
  }
  return in.get_attr(v, name->text.bytes);
}

Value f_indent(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "indent", {"width", "first", "blank"});
  auto s = v.str();
  if (!s) raise("indent needs a string, not '" + std::string(type_name(v)) + "'");
  if (s->markup) raise("indent of a safe string is not supported", ErrorCode::kUnsupported);
  MarkedText by = MarkedText::from_user("    ");
  if (bound[0]) {
    Int width = 0;
    if (auto text = bound[0]->str()) {
      by = text->text;
    } else if (bound[0]->as_int(width)) {
      if (width > 1000) raise("indent's width is above 1000", ErrorCode::kLimit);
      by = MarkedText::from_user(
          std::string(static_cast<std::size_t>(std::max(width, Int{0})), ' '));
    } else {
      raise("indent's width must be an integer or a string");
    }
  }
  auto newline = MarkedText::from_user("\n");
  MarkedText text = s->text;
  text.append(newline);
  auto lines = split_lines(text, false);
  in.charge(lines.size());
  in.charge_bytes(lines.size() * (by.bytes.size() + 1));
  MarkedText out;
  if (flag(bound[1])) out.append(by);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append(newline);
      if (flag(bound[2]) || !lines[i].bytes.empty()) out.append(by);
    }
    out.append(lines[i]);
  }
  return in.str(std::move(out));
}

Value f_format(Interp& in, const Value& v, Args& args) {
  auto text = as_str(in, v);
  if (!args.keywords.empty()) {
    if (!args.positional.empty()) {
      raise("can't handle positional and keyword arguments at the same time");
    }
    Dict dict;
    std::uint64_t work = 0;
    for (auto& [key, value] : args.keywords) dict.set(make_engine_str(key), value, work);
    in.charge(work);
    return in.format_percent(*text.str(), make_dict(std::move(dict)));
  }
  return in.format_percent(*text.str(), make_tuple(std::move(args.positional)));
}

Value f_center(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "center", {"width"});
  Args plain;
  plain.positional.push_back(bound[0] ? *bound[0] : Value(Int{80}));
  return in.call(in.get_attr(as_str(in, v), "center"), plain);
}

Value f_truncate(Interp& in, const Value& v, Args& args) {
  auto bound = in.bind(args, "truncate", {"length", "killwords", "end", "leeway"});
  auto s = v.str();
  if (!s) raise("truncate needs a string, not '" + std::string(type_name(v)) + "'");
  Int length = 255, leeway = 5;
  if (bound[0] && !bound[0]->as_int(length)) raise("truncate's length must be an integer");
  if (bound[3] && !bound[3]->is_none() && !bound[3]->as_int(leeway)) {
    raise("truncate's leeway must be an integer");
  }
  MarkedText end = MarkedText::from_user("...");
  if (bound[2]) end = in.to_text(*bound[2]);
  Int end_chars = static_cast<Int>(count_chars(end.bytes));
  if (length < end_chars) raise("truncate's length is below that of its end");
  if (leeway < 0) raise("truncate's leeway is below 0");
  if (static_cast<Int>(count_chars(s->text.bytes)) <= length + leeway) return v;
  auto cut =
      s->text.substr(0, char_offset(s->text.bytes, static_cast<std::size_t>(length - end_chars)));
  if (!flag(bound[1])) {
    auto space = cut.bytes.rfind(' ');
    if (space != kNpos) cut = cut.substr(0, space);
  }
  cut.append(end);
  return in.str(std::move(cut), s->markup);
}

constexpr std::pair<std::string_view, FilterFn> kFilters[] = {
    {"abs", f_abs},           {"attr", f_attr},
    {"batch", f_batch},       {"capitalize", f_capitalize},
    {"center", f_center},     {"count", f_length},
    {"d", f_default},         {"default", f_default},
    {"dictsort", f_dictsort}, {"e", f_escape},
    {"escape", f_escape},     {"first", f_first},
    {"float", f_float},       {"format", f_format},
    {"groupby", f_groupby},   {"indent", f_indent},
    {"int", f_int},           {"items", f_items},
    {"join", f_join},         {"last", f_last},
    {"length", f_length},     {"list", f_list},
    {"lower", f_lower},       {"map", f_map},
    {"max", f_max},           {"min", f_min},
    {"reject", f_reject},     {"rejectattr", f_rejectattr},
    {"replace", f_replace},   {"reverse", f_reverse},
    {"round", f_round},       {"safe", f_safe},
    {"select", f_select},     {"selectattr", f_selectattr},
    {"slice", f_slice},       {"sort", f_sort},
    {"string", f_string},     {"sum", f_sum},
    {"title", f_title},       {"tojson", f_tojson},
    {"trim", f_trim},         {"truncate", f_truncate},
    {"unique", f_unique},     {"upper", f_upper},
};

}  // namespace

FilterFn find_filter(std::string_view name) {
  for (auto& [key, filter] : kFilters)
    if (key == name) return filter;
  return nullptr;
}

}  // namespace munia::text::tmpl
