// Python's operations on values: truth, comparison, membership, arithmetic, slices, str and repr.
#include <algorithm>
#include <cmath>

#include "text/template_eval.h"

namespace munia::text::tmpl {

bool Interp::truthy(const Value& v) {
  Int i;
  if (v.as_int(i)) return i != 0;
  if (auto d = v.get<double>()) return *d != 0;
  if (auto s = v.str()) return !s->text.bytes.empty();
  if (auto s = v.seq()) return !s->items.empty();
  if (auto d = v.dict()) return !d->items.empty();
  if (v.is_none() || v.is_undefined()) return false;
  if (auto loop = v.get<LoopPtr>()) return !(*loop)->length || *(*loop)->length != 0;
  return true;
}

bool Interp::equal(const Value& a, const Value& b) {
  std::uint64_t work = 0;
  bool result = values_equal(a, b, work);
  charge(work);
  return result;
}

int Interp::compare(const Value& a, const Value& b) {
  DepthGuard depth(*this);
  charge(1);
  for (auto v : {&a, &b})
    if (auto u = v->get<UndefinedPtr>()) raise((*u)->message);
  auto order = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  Int i, j;
  bool ai = a.as_int(i), bi = b.as_int(j);
  if (ai && bi) return order(i, j);
  if (a.is_number() && b.is_number()) {
    // Long doubles hold 64-bit integers exactly.
    long double x = ai ? static_cast<long double>(i) : static_cast<long double>(*a.get<double>());
    long double y = bi ? static_cast<long double>(j) : static_cast<long double>(*b.get<double>());
    if (std::isnan(x) || std::isnan(y)) return 2;
    return order(x, y);
  }
  auto s = a.str(), t = b.str();
  if (s && t) {  // UTF-8's order of bytes is the order of code points
    charge(std::min(s->text.bytes.size(), t->text.bytes.size()) / 64);
    return order(s->text.bytes.compare(t->text.bytes), 0);
  }
  auto p = a.seq(), q = b.seq();
  if (p && q && p->flavor == q->flavor && (p->flavor == Seq::kList || p->flavor == Seq::kTuple)) {
    for (std::size_t k = 0; k < std::min(p->items.size(), q->items.size()); ++k) {
      if (!equal(p->items[k], q->items[k])) return compare(p->items[k], q->items[k]);
    }
    return order(p->items.size(), q->items.size());
  }
  raise("'" + std::string(type_name(a)) + "' and '" + std::string(type_name(b)) +
        "' can't be ordered");
}

bool Interp::contains(const Value& container, const Value& item) {
  if (auto s = container.str()) {
    auto part = item.str();
    if (!part) {
      raise("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
    }
    charge(s->text.bytes.size() / 64);
    return find_bytes(s->text.bytes, part->text.bytes) != kNpos;
  }
  if (auto d = container.dict()) {
    if (!is_hashable(item)) raise("unhashable type: '" + std::string(type_name(item)) + "'");
    std::uint64_t work = 0;
    bool found = d->find(item, work) != nullptr;
    charge(work);
    return found;
  }
  if (auto s = container.seq()) {
    return std::any_of(s->items.begin(), s->items.end(),
                       [&](const Value& v) { return equal(v, item); });
  }
  if (auto it = container.get<IteratorPtr>()) {
    auto& source = **it;
    while (source.pos < source.items.size())
      if (equal(source.items[source.pos++], item)) return true;
    return false;
  }
  if (container.is_undefined()) return false;
  raise("argument of type '" + std::string(type_name(container)) + "' is not iterable");
}

namespace {
[[noreturn]] void too_big() { raise("an integer has more than 127 bits", ErrorCode::kUnsupported); }
Int floor_div(Int a, Int b) {
  Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
double as_double(const Value& v) {
  Int i;
  return v.as_int(i) ? static_cast<double>(i) : *v.get<double>();
}

Value int_binary(Op op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &out)) too_big();
      return Value(out);
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &out)) too_big();
      return Value(out);
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &out)) too_big();
      return Value(out);
    case Op::kDiv:
      if (b == 0) raise("division by zero");
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Op::kFloorDiv:
    case Op::kMod:
      if (b == 0) raise("integer division or modulo by zero");
      if (b == -1) {
        if (op == Op::kMod) return Value(Int{0});
        if (__builtin_sub_overflow(static_cast<Int>(0), a, &out)) too_big();
        return Value(out);
      }
      if (op == Op::kFloorDiv) return Value(floor_div(a, b));
      out = a % b;
      return Value(out != 0 && (out < 0) != (b < 0) ? out + b : out);
    case Op::kPow: {
      if (b < 0) {
        if (a == 0) raise("0.0 cannot be raised to a negative power");
        return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      if (a == 0 || a == 1) return Value(b == 0 ? Int{1} : a);
      if (a == -1) return Value(b % 2 == 0 ? Int{1} : Int{-1});
      out = 1;
      for (Int k = 0; k < b; ++k)
        if (__builtin_mul_overflow(out, a, &out)) too_big();
      return Value(out);
    }
  }
  too_big();
}

Value float_binary(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value(a + b);
    case Op::kSub:
      return Value(a - b);
    case Op::kMul:
      return Value(a * b);
    case Op::kDiv:
      if (b == 0) raise("float division by zero");
      return Value(a / b);
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) raise("float floor division by zero");
      double mod = std::fmod(a, b);
      double div = (a - mod) / b;
      if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
          mod += b;
          div -= 1;
        }
      } else {
        mod = std::copysign(0.0, b);
      }
      if (op == Op::kMod) return Value(mod);
      if (div == 0) return Value(std::copysign(0.0, a / b));
      double whole = std::floor(div);
      return Value(div - whole > 0.5 ? whole + 1 : whole);
    }
    case Op::kPow: {
      if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b) && std::isfinite(a) && std::isfinite(b)) {
        raise("complex numbers are not supported", ErrorCode::kUnsupported);
      }
      double out = std::pow(a, b);
      if (std::isinf(out) && std::isfinite(a) && std::isfinite(b))
        raise("Numerical result out of range");
      return Value(out);
    }
  }
  too_big();
}
}  // namespace

Value Interp::binary(Op op, const Value& a, const Value& b) {
  for (auto v : {&a, &b})
    if (auto u = v->get<UndefinedPtr>()) raise((*u)->message);
  if (op == Op::kMod && a.str()) return format_percent(*a.str(), b);
  Int i, j;
  if (a.as_int(i) && b.as_int(j)) return int_binary(op, i, j);
  if (a.is_number() && b.is_number()) return float_binary(op, as_double(a), as_double(b));
  if (op == Op::kAdd) return add(a, b);
  if (op == Op::kMul) return multiply(a, b);
  raise("unsupported operand types: '" + std::string(type_name(a)) + "' and '" +
        std::string(type_name(b)) + "'");
}

Value Interp::add(const Value& a, const Value& b) {
  auto s = a.str(), t = b.str();
  if (s && t) {
    bool markup = s->markup || t->markup;
    Value left = markup && !s->markup ? escape_html(a) : a;
    Value right = markup && !t->markup ? escape_html(b) : b;
    MarkedText text = left.str()->text;
    text.append(right.str()->text);
    return str(std::move(text), markup);
  }
  auto p = a.seq(), q = b.seq();
  if (p && q && p->flavor == q->flavor && (p->flavor == Seq::kList || p->flavor == Seq::kTuple)) {
    charge(p->items.size() + q->items.size());
    std::vector<Value> items = p->items;
    items.insert(items.end(), q->items.begin(), q->items.end());
    return make_seq(p->flavor, std::move(items));
  }
  if (s) {
    raise("can only concatenate str (not \"" + std::string(type_name(b)) + "\") to str");
  }
  raise("unsupported operand types for +: '" + std::string(type_name(a)) + "' and '" +
        std::string(type_name(b)) + "'");
}

Value Interp::multiply(const Value& a, const Value& b) {
  Int n;
  const Value* object = &a;
  if (!b.as_int(n)) {
    object = &b;
    if (!a.as_int(n)) {
      raise("unsupported operand types for *: '" + std::string(type_name(a)) + "' and '" +
            std::string(type_name(b)) + "'");
    }
  }
  if (n < 0) n = 0;
  if (n > 0x7FFFFFFF) raise("the factor of a repetition is too big", ErrorCode::kLimit);
  auto times = static_cast<std::uint64_t>(n);
  if (auto s = object->str()) {
    charge(times);
    charge_bytes(times * s->text.bytes.size());
    MarkedText text;
    for (std::uint64_t k = 0; k < times; ++k) text.append(s->text);
    return make_str(std::move(text), s->markup);
  }
  auto seq = object->seq();
  if (seq && (seq->flavor == Seq::kList || seq->flavor == Seq::kTuple)) {
    charge(times);
    charge(times * seq->items.size());
    std::vector<Value> items;
    for (std::uint64_t k = 0; k < times; ++k)
      items.insert(items.end(), seq->items.begin(), seq->items.end());
    return make_seq(seq->flavor, std::move(items));
  }
  raise("can't multiply '" + std::string(type_name(*object)) + "' by an integer");
}

Value Interp::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (auto u = object.get<UndefinedPtr>()) raise((*u)->message);
  auto text = object.str();
  auto seq = object.seq();
  if (seq && seq->flavor > Seq::kRange) seq = nullptr;
  if (!text && !seq) raise(object_name(object) + " can't be sliced");
  Int by = 1;
  auto bound = [](const Value& v, Int& out) {
    if (!v.as_int(out)) raise("slice indices must be integers or None");
  };
  if (!step.is_none()) bound(step, by);
  if (by == 0) raise("slice step cannot be zero");
  std::vector<std::size_t> offsets;
  if (text) {
    charge(text->text.bytes.size() / 16);
    offsets = char_offsets(text->text.bytes);
  }
  Int n = static_cast<Int>(text ? offsets.size() - 1 : seq->items.size());
  Int low = by > 0 ? 0 : -1, high = by > 0 ? n : n - 1;
  auto clamp = [&](const Value& v, Int otherwise) {
    if (v.is_none()) return otherwise;
    Int i = 0;
    bound(v, i);
    if (i < 0) i = i < -n ? low : i + n;
    return std::clamp(i, low, std::max(low, high));
  };
  Int from = clamp(start, by > 0 ? low : high);
  Int to = clamp(stop, by > 0 ? high : low);
  by = std::clamp(by, -n - 1, n + 1);
  if (text && by == 1) {
    auto b = static_cast<std::size_t>(from), e = static_cast<std::size_t>(std::max(from, to));
    return str(slice_bytes(text->text, offsets[b], offsets[e]), text->markup);
  }
  MarkedText cut;
  std::vector<Value> items;
  for (Int i = from; by > 0 ? i < to : i > to; i += by) {
    auto k = static_cast<std::size_t>(i);
    if (text) {
      append_slice(cut, text->text, offsets[k], offsets[k + 1]);
    } else {
      items.push_back(seq->items[k]);
    }
  }
  if (text) return str(std::move(cut), text->markup);
  charge(items.size());
  return make_seq(seq->flavor, std::move(items));
}

bool Interp::has_length(const Value& v, Int* out) {
  if (auto s = v.str()) {
    charge(s->text.bytes.size() / 64);
    return *out = static_cast<Int>(count_chars(s->text.bytes)), true;
  }
  if (auto s = v.seq()) return *out = static_cast<Int>(s->items.size()), true;
  if (auto d = v.dict()) return *out = static_cast<Int>(d->items.size()), true;
  if (v.is_undefined()) return *out = 0, true;
  return false;
}

Int Interp::length(const Value& v) {
  Int n = 0;
  if (has_length(v, &n)) return n;
  if (auto loop = v.get<LoopPtr>()) {
    bool found = false;
    auto value = loop_attr(*loop, "length", found);
    value.as_int(n);
    return n;
  }
  raise("object of type '" + std::string(type_name(v)) + "' has no length");
}

std::vector<Value> Interp::items_of(const Value& v) {
  std::vector<Value> items;
  if (auto s = v.seq()) {
    charge(s->items.size());
    return s->items;
  }
  if (auto d = v.dict()) {
    charge(d->items.size());
    for (auto& [key, value] : d->items) items.push_back(key);
    return items;
  }
  if (auto s = v.str()) {
    charge(s->text.bytes.size());
    auto offsets = char_offsets(s->text.bytes);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
      items.push_back(str(slice_bytes(s->text, offsets[i], offsets[i + 1])));
    return items;
  }
  if (auto it = v.get<IteratorPtr>()) {
    auto& source = **it;
    items.assign(source.items.begin() + static_cast<std::ptrdiff_t>(source.pos),
                 source.items.end());
    charge(items.size());
    source.pos = source.items.size();
    return items;
  }
  if (v.is_undefined()) return items;
  if (v.get<LoopPtr>()) raise("iterating over 'loop' is not supported", ErrorCode::kUnsupported);
  raise("'" + std::string(type_name(v)) + "' object is not iterable");
}

MarkedText Interp::to_text(const Value& v) {
  if (auto s = v.str()) {
    charge_bytes(s->text.bytes.size());
    return s->text;
  }
  if (v.is_undefined()) return {};
  MarkedText out;
  append_repr(out, v);
  return out;
}

void Interp::append_repr(MarkedText& out, const Value& v, int depth) {
  charge(1);
  if (depth > static_cast<int>(kMaxValueDepth)) raise("a value nests too deep to be printed");
  if (v.is_none()) return append_user(out, "None");
  if (auto b = v.get<bool>()) return append_user(out, *b ? "True" : "False");
  if (auto i = v.get<Int>()) return append_user(out, format_int(*i));
  if (auto d = v.get<double>()) return append_user(out, format_float(*d));
  if (v.is_undefined()) return append_user(out, "Undefined");
  if (auto s = v.str()) {
    charge_bytes(s->text.bytes.size());
    if (s->markup) append_user(out, "Markup(");
    out.append(repr(s->text));
    if (s->markup) append_user(out, ")");
    return;
  }
  auto dict_items = [&](auto& items, auto key_text) {
    append_user(out, "{");
    bool first = true;
    for (auto& [key, value] : items) {
      if (!std::exchange(first, false)) append_user(out, ", ");
      key_text(key);
      append_user(out, ": ");
      append_repr(out, value, depth + 1);
    }
    append_user(out, "}");
  };
  if (auto d = v.dict()) {
    return dict_items(d->items, [&](const Value& key) { append_repr(out, key, depth + 1); });
  }
  if (auto ns = v.get<NamespacePtr>()) {
    append_user(out, "<Namespace ");
    dict_items((*ns)->attrs,
               [&](const std::string& key) { out.append(repr(MarkedText::from_user(key))); });
    return append_user(out, ">");
  }
  auto seq = v.seq();
  if (!seq) {
    raise("a " + std::string(type_name(v)) + " can't be printed (use |list on a generator)",
          ErrorCode::kUnsupported);
  }
  if (seq->flavor == Seq::kRange) {
    raise("a range can't be printed (use |list)", ErrorCode::kUnsupported);
  }
  bool tuple = seq->flavor == Seq::kTuple, view = seq->flavor > Seq::kRange;
  if (view) append_user(out, std::string(type_name(v)) + "(");
  append_user(out, tuple ? "(" : "[");
  bool first = true;
  for (auto& item : seq->items) {
    if (!std::exchange(first, false)) append_user(out, ", ");
    append_repr(out, item, depth + 1);
  }
  append_user(out, tuple && seq->items.size() == 1 ? ",)" : tuple ? ")" : "]");
  if (view) append_user(out, ")");
}

}  // namespace munia::text::tmpl
