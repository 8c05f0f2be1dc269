// The filters on sequences: joining, picking, sorting, grouping, mapping, selecting.
#include <algorithm>

#include "text/template_filters.h"

namespace munia::text::tmpl {

namespace {

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
  Int n = 0;
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
  Int n = 0;
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

constexpr FilterEntry kFilters[] = {
    {"batch", f_batch},
    {"dictsort", f_dictsort},
    {"first", f_first},
    {"groupby", f_groupby},
    {"items", f_items},
    {"join", f_join},
    {"last", f_last},
    {"list", f_list},
    {"map", f_map},
    {"max", f_max},
    {"min", f_min},
    {"reject", f_reject},
    {"rejectattr", f_rejectattr},
    {"reverse", f_reverse},
    {"select", f_select},
    {"selectattr", f_selectattr},
    {"slice", f_slice},
    {"sort", f_sort},
    {"sum", f_sum},
    {"unique", f_unique},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace munia::text::tmpl
