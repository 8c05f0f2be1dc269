// The filters on strings, numbers and single values: `value | name(arguments)`. Those on sequences
// are in template_filters_seq.cpp.
#include "text/template_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"

namespace munia::text::tmpl {

namespace {

Value as_str(Interp& in, const Value& v) { return v.str() ? v : in.str(in.to_text(v)); }

bool flag(const Value* v) { return v && Interp::truthy(*v); }

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
  Int i = 0;
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
  Int i = 0;
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
  Int i = 0;
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
  Int i = 0;
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

constexpr FilterEntry kFilters[] = {
    {"abs", f_abs},         {"attr", f_attr},         {"capitalize", f_capitalize},
    {"center", f_center},   {"count", f_length},      {"d", f_default},
    {"default", f_default}, {"e", f_escape},          {"escape", f_escape},
    {"float", f_float},     {"format", f_format},     {"indent", f_indent},
    {"int", f_int},         {"length", f_length},     {"lower", f_lower},
    {"replace", f_replace}, {"round", f_round},       {"safe", f_safe},
    {"string", f_string},   {"title", f_title},       {"tojson", f_tojson},
    {"trim", f_trim},       {"truncate", f_truncate}, {"upper", f_upper},
};

FilterFn find_in(std::span<const FilterEntry> filters, std::string_view name) {
  for (auto& [key, filter] : filters)
    if (key == name) return filter;
  return nullptr;
}

}  // namespace

FilterFn find_filter(std::string_view name) {
  auto filter = find_in(kFilters, name);
  return filter ? filter : find_in(sequence_filters(), name);
}

}  // namespace munia::text::tmpl
