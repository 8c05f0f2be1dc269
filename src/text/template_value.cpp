// Building, comparing and naming the template engine's values.
#include "text/template_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/template_eval.h"

namespace munia::text::tmpl {

void fail_at(Position at, ErrorCode code, const std::string& message) {
  throw Failure{{code, "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                           ": " + message}};
}

void raise(std::string message, ErrorCode code) { throw Unplaced{code, std::move(message)}; }

Value make_str(MarkedText text, bool markup) {
  return Value(StrPtr(std::make_shared<Str>(Str{std::move(text), markup})));
}
Value make_engine_str(std::string_view text) { return make_str(MarkedText::from_user(text)); }
Value make_template_str(std::string_view text) { return make_str(MarkedText::from_template(text)); }
Value make_undefined(std::string message) {
  return Value(UndefinedPtr(std::make_shared<Undefined>(Undefined{std::move(message)})));
}

namespace {
std::uint32_t depth_of(const Value& value) {
  if (auto s = value.seq()) return s->depth;
  if (auto d = value.dict()) return d->depth;
  if (auto it = value.get<IteratorPtr>()) {
    std::uint32_t depth = 0;
    for (auto& item : (*it)->items) depth = std::max(depth, depth_of(item));
    return depth + 1;
  }
  return 0;
}
std::uint32_t checked_depth(std::uint32_t inner) {
  if (inner + 1 > kMaxValueDepth) {
    raise("lists or objects are nested deeper than " + std::to_string(kMaxValueDepth) + " levels",
          ErrorCode::kLimit);
  }
  return inner + 1;
}
}  // namespace

Value make_seq(Seq::Flavor flavor, std::vector<Value> items) {
  std::uint32_t inner = 0;
  for (auto& item : items) inner = std::max(inner, depth_of(item));
  auto seq = std::make_shared<Seq>();
  seq->depth = checked_depth(inner);
  seq->flavor = flavor;
  seq->items = std::move(items);
  return Value(SeqPtr(std::move(seq)));
}
Value make_list(std::vector<Value> items) { return make_seq(Seq::kList, std::move(items)); }
Value make_tuple(std::vector<Value> items) { return make_seq(Seq::kTuple, std::move(items)); }

Value make_dict(Dict dict) {
  std::uint32_t inner = 0;
  for (auto& [key, value] : dict.items) inner = std::max({inner, depth_of(key), depth_of(value)});
  dict.depth = checked_depth(inner);
  return Value(DictPtr(std::make_shared<Dict>(std::move(dict))));
}

Value make_iterator(std::vector<Value> items) {
  auto it = std::make_shared<Iterator>();
  std::uint32_t inner = 0;
  for (auto& item : items) inner = std::max(inner, depth_of(item));
  checked_depth(inner);
  it->items = std::move(items);
  return Value(IteratorPtr(std::move(it)));
}

namespace {
constexpr std::size_t kIndexFrom = 8;  // below this a walk over the keys is quicker
}

const Value* Dict::find(std::string_view key) const {
  if (!index.empty()) {
    auto it = index.find(key);
    return it == index.end() ? nullptr : &items[it->second].second;
  }
  for (auto& [k, v] : items) {
    auto s = k.str();
    if (s && s->text.bytes == key) return &v;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key, std::uint64_t& work) const {
  if (auto s = key.str()) {
    work += index.empty() ? items.size() : 1;
    return find(std::string_view(s->text.bytes));
  }
  for (auto& [k, v] : items)
    if (values_equal(k, key, work)) return &v;
  return nullptr;
}

void Dict::set(const Value& key, const Value& value, std::uint64_t& work) {
  if (auto old = find(key, work)) {
    *const_cast<Value*>(old) = value;
    return;
  }
  items.emplace_back(key, value);
  if (items.size() < kIndexFrom) return;
  // The views point into the shared strings, which live as long as the keys.
  std::size_t from = items.size() == kIndexFrom ? 0 : items.size() - 1;
  for (std::size_t i = from; i < items.size(); ++i) {
    if (auto s = items[i].first.str()) {
      index.emplace(s->text.bytes, static_cast<std::uint32_t>(i));
    }
  }
}

std::string_view type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (auto s = value.str()) return s->markup ? "Markup" : "str";
  if (value.dict()) return "dict";
  if (auto s = value.seq()) {
    constexpr std::string_view kNames[] = {"list",       "tuple",     "range",
                                           "dict_items", "dict_keys", "dict_values"};
    return kNames[s->flavor];
  }
  if (value.get<NamespacePtr>()) return "TemplateNamespace";
  if (value.get<LoopPtr>()) return "LoopContext";
  if (value.get<IteratorPtr>()) return "generator";
  if (value.get<CallablePtr>()) return "function";
  return "Undefined";
}

std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  return "'" + std::string(type_name(value)) + " object'";
}

bool is_hashable(const Value& value) {
  if (value.dict()) return false;
  auto s = value.seq();
  if (!s) return true;
  if (s->flavor == Seq::kRange) return true;
  if (s->flavor != Seq::kTuple) return false;
  return std::all_of(s->items.begin(), s->items.end(), is_hashable);
}

namespace {
/// Compares as Python does: exactly, also where a double does not hold the integer.
bool int_equals_float(Int i, double d) {
  if (!std::isfinite(d) || d != std::floor(d) || std::fabs(d) >= 0x1p126) return false;
  return static_cast<Int>(d) == i;
}
}  // namespace

bool values_equal(const Value& a, const Value& b, std::uint64_t& work, int depth) {
  constexpr std::uint64_t kMaxWork = 2'000'000;  // shared parts can make a comparison exponential
  if (++work > kMaxWork) raise("a comparison takes too many steps", ErrorCode::kLimit);
  if (depth > static_cast<int>(kMaxValueDepth) + 2) {
    raise("values are nested too deep to be compared", ErrorCode::kLimit);
  }
  Int i = 0, j = 0;
  bool ai = a.as_int(i), bi = b.as_int(j);
  if (ai && bi) return i == j;
  if (ai && b.is_float()) return int_equals_float(i, *b.get<double>());
  if (bi && a.is_float()) return int_equals_float(j, *a.get<double>());
  if (a.is_float() && b.is_float()) return *a.get<double>() == *b.get<double>();
  if (auto x = a.str()) {
    auto y = b.str();
    if (!y || x->text.bytes.size() != y->text.bytes.size()) return false;
    work += x->text.bytes.size() / 64;
    return x->text.bytes == y->text.bytes;
  }
  if (a.is_none()) return b.is_none();
  if (a.is_undefined()) return b.is_undefined();
  if (auto x = a.seq()) {
    auto y = b.seq();
    if (!y || x->flavor != y->flavor || x->items.size() != y->items.size()) return false;
    if (x == y) return true;
    if (x->flavor == Seq::kKeys || x->flavor == Seq::kItems) {  // compare as sets
      return std::all_of(x->items.begin(), x->items.end(), [&](const Value& v) {
        return std::any_of(y->items.begin(), y->items.end(),
                           [&](const Value& w) { return values_equal(v, w, work, depth + 1); });
      });
    }
    if (x->flavor == Seq::kValues) return false;
    for (std::size_t k = 0; k < x->items.size(); ++k)
      if (!values_equal(x->items[k], y->items[k], work, depth + 1)) return false;
    return true;
  }
  if (auto x = a.dict()) {
    auto y = b.dict();
    if (!y || x->items.size() != y->items.size()) return false;
    for (auto& [key, value] : x->items) {
      auto other = y->find(key, work);
      if (!other || !values_equal(value, *other, work, depth + 1)) return false;
    }
    return true;
  }
  auto same = [&](auto tag) {
    using P = decltype(tag);
    auto x = a.get<P>();
    auto y = b.get<P>();
    return x && y && x->get() == y->get();
  };
  return same(NamespacePtr()) || same(LoopPtr()) || same(CallablePtr()) || same(IteratorPtr());
}

std::string format_int(Int value) {
  if (value == 0) return "0";
  bool negative = value < 0;
  std::string digits;
  while (value != 0) {
    int digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
    value /= 10;
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits that read back the same, then Python's choice of notation.
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
  std::string out;
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  auto e = text.find('e');
  int exponent = 0;
  auto exponent_text = text.substr(e + 1);
  if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 1) digits += text.substr(2, e - 2);
  int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (n > 1) out += "." + digits.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    int magnitude = exponent < 0 ? -exponent : exponent;
    if (magnitude < 10) out += "0";
    return out + std::to_string(magnitude);
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  if (n <= exponent + 1) {
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - n), '0') + ".0";
  }
  auto point = static_cast<std::size_t>(exponent + 1);
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

}  // namespace munia::text::tmpl
