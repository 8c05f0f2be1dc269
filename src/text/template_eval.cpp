// Evaluating expressions: names, literals, operators, calls, filters, tests.
#include "text/template_eval.h"

#include <algorithm>

namespace munia::text::tmpl {

DepthGuard::DepthGuard(Interp& in) : in_(in) {
  if (in_.depth_ >= in_.limits_.max_depth) {
    raise("the template nests calls and expressions deeper than " +
              std::to_string(in_.limits_.max_depth) + " levels",
          ErrorCode::kLimit);
  }
  ++in_.depth_;
}

void Interp::steps_exceeded() {
  raise("the template takes more than " + std::to_string(limits_.max_steps) + " steps",
        ErrorCode::kLimit);
}

void Interp::charge_bytes(std::uint64_t bytes) {
  work_bytes_ += bytes;
  if (work_bytes_ > limits_.max_work_bytes) {
    raise("the template makes strings of more than " + std::to_string(limits_.max_work_bytes) +
              " bytes in all",
          ErrorCode::kLimit);
  }
}

Value Interp::str(MarkedText text, bool markup) {
  charge_bytes(text.bytes.size());
  return make_str(std::move(text), markup);
}

Value Interp::eval(const Expr& e) {
  DepthGuard depth(*this);
  charge(1);
  at_ = e.at;
  switch (e.kind) {
    case ExprKind::kConst:
      return e.constant;
    case ExprKind::kName:
      return eval_name(e);
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kDict:
      return eval_collection(e);
    case ExprKind::kNeg:
    case ExprKind::kPos:
      return eval_unary(e);
    case ExprKind::kBinary:
      return eval_binary(e);
    case ExprKind::kConcat:
      return eval_concat(e);
    case ExprKind::kCompare:
      return eval_compare(e);
    case ExprKind::kAnd: {
      auto left = eval(*e.children[0]);
      return truthy(left) ? eval(*e.children[1]) : left;
    }
    case ExprKind::kOr: {
      auto left = eval(*e.children[0]);
      return truthy(left) ? left : eval(*e.children[1]);
    }
    case ExprKind::kNot:
      return Value(!truthy(eval(*e.children[0])));
    case ExprKind::kCond:
      if (truthy(eval(*e.children[0]))) return eval(*e.children[1]);
      if (e.children[2]) return eval(*e.children[2]);
      return make_undefined("the inline if-expression on line " + std::to_string(e.at.line) +
                            " evaluated to false and no else section was defined.");
    case ExprKind::kGetAttr: {
      auto object = eval(*e.children[0]);
      at_ = e.at;
      return get_attr(object, e.name);
    }
    case ExprKind::kGetItem: {
      auto object = eval(*e.children[0]);
      auto key = eval(*e.children[1]);
      at_ = e.at;
      return get_item(object, key);
    }
    case ExprKind::kSlice:
      return eval_slice(e);
    case ExprKind::kCall:
      return eval_call(e);
    case ExprKind::kFilter:
      return eval_filter(e, nullptr);
    case ExprKind::kTest: {
      auto object = eval(*e.children[0]);
      auto args = eval_args(e.args);
      at_ = e.at;
      return Value(call_test(e.name, object, args));
    }
    case ExprKind::kNsRef:
      break;
  }
  raise("this expression has no value");
}

Value Interp::eval_name(const Expr& e) {
  for (auto scope = scope_.get(); scope; scope = scope->parent.get()) {
    charge(1 + scope->vars.size() / 8);
    if (auto value = scope->find(e.name)) {
      if (value->is_missing()) return make_undefined("'" + e.name + "' is undefined");
      return *value;
    }
  }
  if (auto value = context_.find(std::string_view(e.name))) return *value;
  for (auto global : {"range", "dict", "namespace", "raise_exception", "strftime_now"}) {
    if (e.name == global) {
      return Value(CallablePtr(
          std::make_shared<Callable>(Callable{Callable::kGlobal, e.name, Value(), nullptr, {}})));
    }
  }
  for (auto other : {"lipsum", "cycler", "joiner", "self"}) {
    if (e.name == other) {
      raise("the global '" + e.name + "' is not supported", ErrorCode::kUnsupported);
    }
  }
  return make_undefined("'" + e.name + "' is undefined");
}

Value Interp::eval_collection(const Expr& e) {
  if (e.kind == ExprKind::kDict) {
    Dict dict;
    std::uint64_t work = 0;
    for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
      auto key = eval(*e.children[i]);
      auto value = eval(*e.children[i + 1]);
      at_ = e.at;
      if (!is_hashable(key)) raise("unhashable type: '" + std::string(type_name(key)) + "'");
      work = 0;
      dict.set(key, value, work);
      charge(work);
    }
    return make_dict(std::move(dict));
  }
  std::vector<Value> items;
  items.reserve(e.children.size());
  for (auto& child : e.children) items.push_back(eval(*child));
  at_ = e.at;
  return e.kind == ExprKind::kTuple ? make_tuple(std::move(items)) : make_list(std::move(items));
}

Value Interp::eval_unary(const Expr& e) {
  auto value = eval(*e.children[0]);
  at_ = e.at;
  Int i;
  if (value.as_int(i)) {
    if (e.kind == ExprKind::kPos) return Value(i);
    Int negated;
    if (__builtin_sub_overflow(static_cast<Int>(0), i, &negated)) raise("the integer is too big");
    return Value(negated);
  }
  if (auto d = value.get<double>()) return Value(e.kind == ExprKind::kPos ? *d : -*d);
  if (auto u = value.get<UndefinedPtr>()) raise((*u)->message);
  raise("bad operand type for unary operator: '" + std::string(type_name(value)) + "'");
}

Value Interp::eval_binary(const Expr& e) {
  auto left = eval(*e.children[0]);
  auto right = eval(*e.children[1]);
  at_ = e.at;
  return binary(e.op, left, right);
}

Value Interp::eval_concat(const Expr& e) {
  MarkedText text;
  for (auto& child : e.children) {
    auto value = eval(*child);
    at_ = e.at;
    text.append(to_text(value));
    charge_bytes(text.bytes.size() / 8);
  }
  return str(std::move(text));
}

Value Interp::eval_compare(const Expr& e) {
  auto left = eval(*e.children[0]);
  for (std::size_t i = 0; i < e.comparisons.size(); ++i) {
    auto right = eval(*e.children[i + 1]);
    at_ = e.at;
    bool holds = false;
    switch (e.comparisons[i]) {
      case Cmp::kEq:
        holds = equal(left, right);
        break;
      case Cmp::kNe:
        holds = !equal(left, right);
        break;
      case Cmp::kIn:
        holds = contains(right, left);
        break;
      case Cmp::kNotIn:
        holds = !contains(right, left);
        break;
      default: {
        int order = compare(left, right);
        auto cmp = e.comparisons[i];
        bool ordered = order != 2;  // NaN
        holds = ordered && (cmp == Cmp::kLt   ? order < 0
                            : cmp == Cmp::kLe ? order <= 0
                            : cmp == Cmp::kGt ? order > 0
                                              : order >= 0);
      }
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interp::eval_slice(const Expr& e) {
  auto object = eval(*e.children[0]);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (e.children[i + 1]) bounds[i] = eval(*e.children[i + 1]);
  at_ = e.at;
  return slice(object, bounds[0], bounds[1], bounds[2]);
}

Args Interp::eval_args(const CallArgs& from) {
  Args args;
  for (auto& arg : from.positional) args.positional.push_back(eval(*arg));
  for (auto& [name, arg] : from.keywords) args.keywords.emplace_back(name, eval(*arg));
  if (from.star) {
    auto value = eval(*from.star);
    for (auto& item : items_of(value)) args.positional.push_back(item);
  }
  if (from.star_star) {
    auto value = eval(*from.star_star);
    auto dict = value.dict();
    if (!dict) raise("** needs a mapping");
    for (auto& [key, item] : dict->items) {
      auto name = key.str();
      if (!name) raise("keywords must be strings");
      charge(1 + args.keywords.size() / 4);
      for (auto& [other, old] : args.keywords) {
        if (other == name->text.bytes) raise("the argument '" + other + "' is given twice");
      }
      args.keywords.emplace_back(name->text.bytes, item);
    }
  }
  return args;
}

Value Interp::eval_call(const Expr& e) {
  auto callee = eval(*e.children[0]);
  auto args = eval_args(e.args);
  at_ = e.at;
  return call(callee, args);
}

Value Interp::eval_filter(const Expr& e, const Value* input) {
  // The innermost filter of a filter block or a set block has no expression: `input` is the text.
  Value value;
  if (!e.children[0]) {
    value = *input;
  } else if (input && e.children[0]->kind == ExprKind::kFilter) {
    DepthGuard depth(*this);
    value = eval_filter(*e.children[0], input);
  } else {
    value = eval(*e.children[0]);
  }
  auto args = eval_args(e.args);
  at_ = e.at;
  return call_filter(e.name, value, args);
}

Value Interp::call_filter(const std::string& name, const Value& input, Args& args) {
  auto filter = find_filter(name);
  if (!filter) raise("unknown filter '" + name + "'", ErrorCode::kUnsupported);
  charge(1);
  return filter(*this, input, args);
}

bool Interp::call_test(const std::string& name, const Value& input, Args& args) {
  auto test = find_test(name);
  if (!test) raise("unknown test '" + name + "'", ErrorCode::kUnsupported);
  charge(1);
  return test(*this, input, args);
}

Value Interp::call(const Value& callee, Args& args) {
  if (auto u = callee.get<UndefinedPtr>()) raise((*u)->message);
  if (auto loop = callee.get<LoopPtr>()) return run_recursive(*loop, args);
  auto callable = callee.get<CallablePtr>();
  if (!callable) raise("'" + std::string(type_name(callee)) + "' object is not callable");
  CallablePtr keep = *callable;
  switch (keep->kind) {
    case Callable::kGlobal:
      return call_global(keep->name, args);
    case Callable::kMethod:
      return call_method(keep->self, keep->name, args);
    case Callable::kMacro: {
      DepthGuard depth(*this);
      return call_macro(*keep, args);
    }
  }
  raise("not callable");
}

std::vector<const Value*> Interp::bind(Args& args, std::string_view what,
                                       std::initializer_list<std::string_view> names,
                                       std::size_t required) {
  std::vector<const Value*> bound(names.size(), nullptr);
  auto name = std::string(what);
  if (args.positional.size() > names.size()) {
    raise(name + " takes at most " + std::to_string(names.size()) + " arguments, " +
          std::to_string(args.positional.size()) + " are given");
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) bound[i] = &args.positional[i];
  for (auto& [key, value] : args.keywords) {
    auto it = std::find(names.begin(), names.end(), key);
    if (it == names.end()) raise(name + " has no argument '" + key + "'");
    auto i = static_cast<std::size_t>(it - names.begin());
    if (bound[i]) raise(name + " gets the argument '" + key + "' twice");
    bound[i] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!bound[i]) raise(name + " needs the argument '" + std::string(names.begin()[i]) + "'");
  }
  return bound;
}

}  // namespace munia::text::tmpl
