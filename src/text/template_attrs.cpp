// Attributes and items: what `a.b` and `a["b"]` mean, in jinja2's order (an attribute of the Python
// object first for a dot, an item first for brackets), the loop variable, and the global functions.
#include <algorithm>
#include <ctime>
#include <span>

#include "text/template_eval.h"

namespace munia::text::tmpl {

namespace {

using Names = std::span<const std::string_view>;
bool one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
constexpr std::string_view kRangeOther[] = {"index", "count", "start", "stop", "step"};
constexpr std::string_view kViewOther[] = {"mapping", "isdisjoint"};

constexpr std::string_view kStrMethods[] = {
    "strip",   "lstrip",       "rstrip",      "split",   "rsplit",     "splitlines", "join",
    "replace", "startswith",   "endswith",    "find",    "rfind",      "index",      "rindex",
    "count",   "upper",        "lower",       "title",   "capitalize", "swapcase",   "isdigit",
    "isalpha", "isspace",      "isupper",     "islower", "isalnum",    "isnumeric",  "isdecimal",
    "isascii", "zfill",        "ljust",       "rjust",   "center",     "partition",  "rpartition",
    "format",  "removeprefix", "removesuffix"};
constexpr std::string_view kStrOther[] = {"casefold",   "encode",       "expandtabs",
                                          "format_map", "isidentifier", "isprintable",
                                          "istitle",    "maketrans",    "translate"};
constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kDictUnsafe[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMethods[] = {"index", "count", "copy"};
constexpr std::string_view kListUnsafe[] = {"append", "clear", "pop",    "reverse",
                                            "insert", "sort",  "extend", "remove"};
constexpr std::string_view kNumberOther[] = {
    "real",     "imag",       "numerator", "denominator", "bit_length",
    "to_bytes", "from_bytes", "conjugate", "bit_count",   "as_integer_ratio"};
constexpr std::string_view kFloatOther[] = {
    "real", "imag", "conjugate", "as_integer_ratio", "is_integer", "fromhex", "hex"};
constexpr std::string_view kMacroOther[] = {"name",          "arguments", "catch_kwargs",
                                            "catch_varargs", "caller",    "explicit_caller"};
constexpr std::string_view kIteratorOther[] = {"close",   "send",       "throw",       "gi_frame",
                                               "gi_code", "gi_running", "gi_yieldfrom"};

Value method(const Value& self, const std::string& name) {
  return Value(CallablePtr(
      std::make_shared<Callable>(Callable{Callable::kMethod, name, self, nullptr, {}})));
}
Value unsafe(const Value& object, const std::string& name) {
  return make_undefined("access to attribute '" + name + "' of '" + std::string(type_name(object)) +
                        "' object is unsafe.");
}
Value no_attribute(const Value& object, const std::string& name) {
  // The reference quotes the kind of object here, also that of None.
  const std::string kind = object.is_none() ? "'None'" : object_name(object);
  return make_undefined(kind + " has no attribute '" + name + "'");
}

}  // namespace

bool is_unsupported_attr(const Value& object, std::string_view name) {
  if (object.str()) return one_of(name, kStrOther);
  if (object.dict()) return name == "fromkeys";
  if (auto s = object.seq()) {
    if (s->flavor == Seq::kRange) return one_of(name, kRangeOther);
    return s->flavor > Seq::kRange && one_of(name, kViewOther);
  }
  if (object.is_float()) return one_of(name, kFloatOther);
  if (object.is_number()) return one_of(name, kNumberOther);
  if (object.get<CallablePtr>()) return one_of(name, kMacroOther);
  if (object.get<IteratorPtr>()) return one_of(name, kIteratorOther);
  return false;
}

std::optional<Value> Interp::builtin_attr(const Value& object, const std::string& name) {
  if (name.starts_with("__") && name.ends_with("__")) return unsafe(object, name);
  if (is_unsupported_attr(object, name)) {
    raise("'" + name + "' of " + object_name(object) + " is not supported",
          ErrorCode::kUnsupported);
  }
  if (object.str()) {
    if (one_of(name, kStrMethods)) return method(object, name);
  } else if (object.dict()) {
    if (one_of(name, kDictMethods)) return method(object, name);
    if (one_of(name, kDictUnsafe)) return unsafe(object, name);
  } else if (auto s = object.seq()) {
    bool list = s->flavor == Seq::kList;
    if ((list || s->flavor == Seq::kTuple) && one_of(name, kListMethods) &&
        (list || name != "copy")) {
      return method(object, name);
    }
    if (list && one_of(name, kListUnsafe)) return unsafe(object, name);
  } else if (auto loop = object.get<LoopPtr>()) {
    bool found = false;
    auto value = loop_attr(*loop, name, found);
    if (found) return value;
  } else if (auto ns = object.get<NamespacePtr>()) {
    charge((*ns)->attrs.size() / 8);
    if (auto value = (*ns)->find(name)) return *value;
  }
  return std::nullopt;
}

Value Interp::get_attr(const Value& object, const std::string& name) {
  if (auto u = object.get<UndefinedPtr>()) raise((*u)->message);
  if (auto value = builtin_attr(object, name)) return *value;
  if (auto d = object.dict()) {
    if (auto value = d->find(std::string_view(name))) return *value;
  }
  return no_attribute(object, name);
}

Value Interp::get_item(const Value& object, const Value& key) {
  if (auto u = object.get<UndefinedPtr>()) raise((*u)->message);
  if (auto d = object.dict()) {
    if (is_hashable(key)) {
      std::uint64_t work = 0;
      auto value = d->find(key, work);
      charge(work);
      if (value) return *value;
    }
  }
  Int i;
  if (key.as_int(i)) {
    auto s = object.str();
    auto seq = object.seq();
    if (seq && seq->flavor > Seq::kRange) seq = nullptr;
    if (s) charge(s->text.bytes.size() / 64);
    Int n = s     ? static_cast<Int>(count_chars(s->text.bytes))
            : seq ? static_cast<Int>(seq->items.size())
                  : 0;
    if (i < 0 && i >= -n) i += n;
    if (i >= 0 && i < n) {
      auto k = static_cast<std::size_t>(i);
      if (seq) return seq->items[k];
      auto begin = char_offset(s->text.bytes, k);
      auto end = begin + char_offset(std::string_view(s->text.bytes).substr(begin), 1);
      return str(slice_bytes(s->text, begin, end), s->markup);
    }
  }
  if (auto name = key.str()) {
    if (auto value = builtin_attr(object, name->text.bytes)) return *value;
    return no_attribute(object, name->text.bytes.substr(0, 100));
  }
  MarkedText text;
  append_repr(text, key);
  std::string name = object.is_none() ? "None" : std::string(type_name(object)) + " object";
  return make_undefined(name + " has no element " + text.bytes.substr(0, 100));
}

Value Interp::loop_attr(const LoopPtr& loop_ptr, const std::string& name, bool& found) {
  auto& loop = *loop_ptr;
  found = true;
  auto length = [&] {
    if (!loop.length) {  // walk the rest now, as jinja2 does
      std::vector<Value> rest;
      if (loop.after) rest.push_back(*loop.after);
      Value item;
      while (loop_next(loop, item)) rest.push_back(item);
      loop.length = static_cast<Int>(rest.size()) + loop.index0 + 1;
      loop.after.reset();
      loop.source = std::make_shared<Iterator>();
      loop.source->items = std::move(rest);
      loop.filtered = false;
    }
    return *loop.length;
  };
  if (name == "index0") return Value(loop.index0);
  if (name == "index") return Value(loop.index0 + 1);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(!loop_peek(loop));
  if (name == "length") return Value(length());
  if (name == "revindex") return Value(length() - loop.index0);
  if (name == "revindex0") return Value(length() - loop.index0 - 1);
  if (name == "depth") return Value(loop.depth0 + 1);
  if (name == "depth0") return Value(loop.depth0);
  if (name == "previtem") {
    return loop.index0 == 0 ? make_undefined("there is no previous item") : loop.before;
  }
  if (name == "nextitem") {
    return loop_peek(loop) ? *loop.after : make_undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") return method(Value(loop_ptr), name);
  found = false;
  return {};
}

Value Interp::call_loop_method(const LoopPtr& loop, const std::string& name, Args& args) {
  if (!args.keywords.empty()) raise("loop." + name + " takes no keyword argument");
  if (name == "cycle") {
    if (args.positional.empty()) raise("no items for cycling given");
    auto n = static_cast<Int>(args.positional.size());
    return args.positional[static_cast<std::size_t>(loop->index0 % n)];
  }
  auto value = make_tuple(std::move(args.positional));
  if (!loop->last_changed.is_missing() && equal(loop->last_changed, value)) return Value(false);
  loop->last_changed = value;
  return Value(true);
}

Dict Interp::dict_from_args(Args& args) {
  Dict dict;
  std::uint64_t work = 0;
  auto set = [&](const Value& key, const Value& value) {
    if (!is_hashable(key)) raise("unhashable type: '" + std::string(type_name(key)) + "'");
    work = 0;
    dict.set(key, value, work);
    charge(1 + work);
  };
  if (args.positional.size() > 1) raise("dict expected at most 1 argument");
  if (args.positional.size() == 1) {
    auto& from = args.positional[0];
    if (auto d = from.dict()) {
      for (auto& [key, value] : d->items) set(key, value);
    } else if (from.is_undefined()) {
      raise((*from.get<UndefinedPtr>())->message);
    } else {
      for (auto& pair : items_of(from)) {
        auto parts = items_of(pair);
        if (parts.size() != 2) raise("dict() needs pairs of key and value");
        set(parts[0], parts[1]);
      }
    }
  }
  for (auto& [key, value] : args.keywords) set(make_engine_str(key), value);
  return dict;
}

Value Interp::make_namespace(Args& args) {
  auto dict = dict_from_args(args);
  auto ns = std::make_shared<Namespace>();
  for (auto& [key, value] : dict.items) {
    auto name = key.str();
    if (!name) raise("a namespace's names must be strings", ErrorCode::kUnsupported);
    if (name->text.bytes.starts_with('_')) {
      raise("a namespace can't have the attribute " + name->text.bytes.substr(0, 100));
    }
    ns->attrs.emplace_back(name->text.bytes, value);
  }
  namespaces_.push_back(ns);
  return Value(ns);
}

Value Interp::make_range(Args& args) {
  if (!args.keywords.empty() || args.positional.empty() || args.positional.size() > 3) {
    raise("range takes one to three integers");
  }
  Int bounds[3] = {0, 0, 1};
  std::size_t n = args.positional.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (auto u = args.positional[i].get<UndefinedPtr>()) raise((*u)->message);
    if (!args.positional[i].as_int(bounds[n == 1 ? 1 : i])) raise("range needs integers");
  }
  auto [start, stop, step] = bounds;
  if (step == 0) raise("range() arg 3 must not be zero");
  constexpr Int kBig = static_cast<Int>(1) << 100;
  for (Int bound : bounds)
    if (bound > kBig || bound < -kBig) raise("range's numbers are too big");
  Int count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if ((step > 0 && start >= stop) || (step < 0 && start <= stop)) count = 0;
  if (count > 100000) {  // the reference's sandbox has the same limit
    raise("range has more than 100000 numbers", ErrorCode::kLimit);
  }
  charge(static_cast<std::uint64_t>(count));
  std::vector<Value> items;
  for (Int i = 0; i < count; ++i) items.push_back(Value(start + i * step));
  return make_seq(Seq::kRange, std::move(items));
}

namespace {
Value strftime_now(const Str& format) {
  if (format.text.bytes.size() > 200) raise("strftime_now's format is longer than 200 bytes");
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // One directive at a time: a result of no characters is then no error.
  std::string out;
  const std::string& f = format.text.bytes;
  for (std::size_t i = 0; i < f.size(); ++i) {
    if (f[i] != '%' || i + 1 == f.size()) {
      out.push_back(f[i]);
      continue;
    }
    std::string directive = "%";
    ++i;
    if (f[i] == '-' && i + 1 < f.size()) directive.push_back(f[i++]);
    constexpr std::string_view kKnown = "aAbBcdHIjmMpSUwWxXyYZzGuVeDFTRntChklrsPg%";
    if (kKnown.find(f[i]) == std::string_view::npos) {
      raise("strftime_now does not know the directive %" + std::string(1, f[i]),
            ErrorCode::kUnsupported);
    }
    directive.push_back(f[i]);
    char buffer[256];
    out.append(buffer, std::strftime(buffer, sizeof buffer, directive.c_str(), &local));
  }
  return make_engine_str(out);
}
}  // namespace

Value Interp::call_global(const std::string& name, Args& args) {
  if (name == "range") return make_range(args);
  if (name == "dict") return make_dict(dict_from_args(args));
  if (name == "namespace") return make_namespace(args);
  if (name == "raise_exception") {
    auto bound = bind(args, name, {"message"}, 1);
    raise(to_text(*bound[0]).bytes);
  }
  auto bound = bind(args, name, {"format"}, 1);
  auto format = bound[0]->str();
  if (!format) raise("strftime_now needs a string");
  return strftime_now(*format);
}

Value Interp::call_method(const Value& self, const std::string& name, Args& args) {
  if (auto s = self.str()) return call_str_method(*s, name, args);
  if (self.dict()) return call_dict_method(self, name, args);
  if (auto loop = self.get<LoopPtr>()) return call_loop_method(*loop, name, args);
  return call_list_method(self, name, args);
}

Value Interp::call_dict_method(const Value& self, const std::string& name, Args& args) {
  auto& dict = *self.dict();
  if (!args.keywords.empty()) raise("dict." + name + " takes no keyword argument");
  if (name == "get") {
    auto bound = bind(args, "dict.get", {"key", "default"}, 1);
    if (!is_hashable(*bound[0])) {
      raise("unhashable type: '" + std::string(type_name(*bound[0])) + "'");
    }
    std::uint64_t work = 0;
    auto value = dict.find(*bound[0], work);
    charge(work);
    return value ? *value : bound[1] ? *bound[1] : Value();
  }
  bind(args, "dict." + name, {});
  charge(dict.items.size());
  if (name == "copy") return self;
  std::vector<Value> items;
  for (auto& [key, value] : dict.items) {
    items.push_back(name == "keys" ? key : name == "values" ? value : make_tuple({key, value}));
  }
  return make_seq(name == "keys"     ? Seq::kKeys
                  : name == "values" ? Seq::kValues
                                     : Seq::kItems,
                  std::move(items));
}

Value Interp::call_list_method(const Value& self, const std::string& name, Args& args) {
  auto& items = self.seq()->items;
  if (!args.keywords.empty()) raise("list." + name + " takes no keyword argument");
  if (name == "copy") {
    bind(args, "list.copy", {});
    return self;
  }
  if (name == "count") {
    auto bound = bind(args, "list.count", {"value"}, 1);
    Int count = 0;
    for (auto& item : items) count += equal(item, *bound[0]) ? 1 : 0;
    return Value(count);
  }
  auto bound = bind(args, "list.index", {"value"}, 1);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], *bound[0])) return Value::from_size(i);
  raise("the value is not in the list");
}

}  // namespace munia::text::tmpl
