// The expressions of the template grammar, loosest binding first.
#include <algorithm>

#include "text/template_eval.h"
#include "text/template_parser_impl.h"

namespace munia::text::tmpl {

ExprPtr Parser::make(ExprKind kind, Position at) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->at = at;
  return e;
}

void Parser::adopt(Expr& parent, ExprPtr child) const {
  if (child) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kMaxTreeDepth) {
      fail_at(parent.at, ErrorCode::kLimit,
              "the expression has more than " + std::to_string(kMaxTreeDepth) + " levels");
    }
  }
  parent.children.push_back(std::move(child));
}

void Parser::adopt_args(Expr& parent) const {
  auto deepen = [&](const ExprPtr& child) {
    if (child) parent.depth = std::max(parent.depth, child->depth + 1);
  };
  for (auto& arg : parent.args.positional) deepen(arg);
  for (auto& [name, arg] : parent.args.keywords) deepen(arg);
  deepen(parent.args.star);
  deepen(parent.args.star_star);
  if (parent.depth > kMaxTreeDepth) {
    fail_at(parent.at, ErrorCode::kLimit,
            "the expression has more than " + std::to_string(kMaxTreeDepth) + " levels");
  }
}

void Parser::check_assignable(const Token& token) const {
  for (auto constant : {"true", "false", "none", "True", "False", "None"}) {
    if (token.text == constant) {
      fail_at(token.at, ErrorCode::kInvalidData, "can't assign to '" + token.text + "'");
    }
  }
}

ExprPtr Parser::parse_target_item(bool name_space) {
  Token token = current();
  if (is_op("(")) {
    Depth depth(*this, token.at);
    next();
    auto inner = parse_target({.name_space = false, .end = {}});
    expect_op(")");
    return inner;
  }
  if (token.type != TokenType::kName) {
    fail("a name to assign to is expected, not " + describe(token));
  }
  check_assignable(token);
  next();
  if (name_space && skip_op(".")) {
    auto e = make(ExprKind::kNsRef, token.at);
    e->name = token.text;
    if (current().type != TokenType::kName) fail("an attribute's name is expected");
    e->attr = current().text;
    next();
    return e;
  }
  auto e = make(ExprKind::kName, token.at);
  e->name = token.text;
  return e;
}

ExprPtr Parser::parse_target(TargetOptions options) {
  auto at = current().at;
  auto first = parse_target_item(options.name_space);
  if (!is_op(",")) return first;
  auto tuple = make(ExprKind::kTuple, at);
  adopt(*tuple, std::move(first));
  while (skip_op(",")) {
    if (current().type == TokenType::kBlockEnd || is_op(")") || is_op("=")) break;
    if (!options.end.empty() && is_name(options.end)) break;
    adopt(*tuple, parse_target_item(options.name_space));
  }
  return tuple;
}

ExprPtr Parser::parse_expr() {
  auto e = parse_or();
  while (is_name("if")) {
    auto at = current().at;
    next();
    auto cond = make(ExprKind::kCond, at);
    auto test = parse_or();
    ExprPtr other;
    if (skip_name("else")) {
      Depth depth(*this, at);
      other = parse_expr();
    }
    adopt(*cond, std::move(test));
    adopt(*cond, std::move(e));
    adopt(*cond, std::move(other));
    e = std::move(cond);
  }
  return e;
}

ExprPtr Parser::parse_or() {
  auto left = parse_and();
  while (is_name("or")) {
    auto e = make(ExprKind::kOr, current().at);
    next();
    adopt(*e, std::move(left));
    adopt(*e, parse_and());
    left = std::move(e);
  }
  return left;
}

ExprPtr Parser::parse_and() {
  auto left = parse_not();
  while (is_name("and")) {
    auto e = make(ExprKind::kAnd, current().at);
    next();
    adopt(*e, std::move(left));
    adopt(*e, parse_not());
    left = std::move(e);
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  auto e = make(ExprKind::kNot, current().at);
  Depth depth(*this, e->at);
  next();
  adopt(*e, parse_not());
  return e;
}

ExprPtr Parser::parse_compare() {
  auto at = current().at;
  auto first = parse_add();
  ExprPtr e;
  while (true) {
    Cmp cmp;
    if (is_op("==")) {
      cmp = Cmp::kEq;
    } else if (is_op("!=")) {
      cmp = Cmp::kNe;
    } else if (is_op("<")) {
      cmp = Cmp::kLt;
    } else if (is_op("<=")) {
      cmp = Cmp::kLe;
    } else if (is_op(">")) {
      cmp = Cmp::kGt;
    } else if (is_op(">=")) {
      cmp = Cmp::kGe;
    } else if (is_name("in")) {
      cmp = Cmp::kIn;
    } else if (is_name("not") && look().type == TokenType::kName && look().text == "in") {
      cmp = Cmp::kNotIn;
      next();
    } else {
      break;
    }
    if (!e) {
      e = make(ExprKind::kCompare, at);
      adopt(*e, std::move(first));
    }
    e->comparisons.push_back(cmp);
    next();
    adopt(*e, parse_add());
  }
  return e ? std::move(e) : std::move(first);
}

ExprPtr Parser::parse_add() {
  auto left = parse_concat();
  while (is_op("+") || is_op("-")) {
    auto e = make(ExprKind::kBinary, current().at);
    e->op = is_op("+") ? Op::kAdd : Op::kSub;
    next();
    adopt(*e, std::move(left));
    adopt(*e, parse_concat());
    left = std::move(e);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  auto at = current().at;
  auto first = parse_mul();
  if (!is_op("~")) return first;
  auto e = make(ExprKind::kConcat, at);
  adopt(*e, std::move(first));
  while (skip_op("~")) adopt(*e, parse_mul());
  return e;
}

ExprPtr Parser::parse_mul() {
  auto left = parse_pow();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    auto e = make(ExprKind::kBinary, current().at);
    e->op = is_op("*") ? Op::kMul : is_op("/") ? Op::kDiv : is_op("//") ? Op::kFloorDiv : Op::kMod;
    next();
    adopt(*e, std::move(left));
    adopt(*e, parse_pow());
    left = std::move(e);
  }
  return left;
}

ExprPtr Parser::parse_pow() {
  auto left = parse_unary(true);
  while (is_op("**")) {
    auto e = make(ExprKind::kBinary, current().at);
    e->op = Op::kPow;
    next();
    adopt(*e, std::move(left));
    adopt(*e, parse_unary(true));
    left = std::move(e);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  ExprPtr e;
  if (is_op("-") || is_op("+")) {
    e = make(is_op("-") ? ExprKind::kNeg : ExprKind::kPos, current().at);
    Depth depth(*this, e->at);
    next();
    adopt(*e, parse_unary(false));
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  if (!with_filter) return e;
  while (true) {
    if (is_op("|")) {
      e = parse_filters(std::move(e), false);
    } else if (is_name("is")) {
      e = parse_test(std::move(e));
    } else if (is_op("(")) {
      e = parse_call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr Parser::parse_primary() {
  Token token = current();
  auto constant = [&](Value value) {
    auto e = make(ExprKind::kConst, token.at);
    e->constant = std::move(value);
    next();
    return e;
  };
  switch (token.type) {
    case TokenType::kName: {
      if (token.text == "true" || token.text == "True") return constant(Value(true));
      if (token.text == "false" || token.text == "False") return constant(Value(false));
      if (token.text == "none" || token.text == "None") return constant(Value());
      auto e = make(ExprKind::kName, token.at);
      e->name = token.text;
      for (auto macro : macros_) {
        if (token.text == "caller") macro->uses_caller = true;
        if (token.text == "kwargs") macro->uses_kwargs = true;
        if (token.text == "varargs") macro->uses_varargs = true;
      }
      next();
      return e;
    }
    case TokenType::kString: {
      std::string text;
      auto e = make(ExprKind::kConst, token.at);
      for (; current().type == TokenType::kString; next()) text += current().text;
      e->constant = make_template_str(text);
      return e;
    }
    case TokenType::kInteger:
      return constant(Value(token.integer));
    case TokenType::kFloat:
      return constant(Value(token.real));
    default:
      break;
  }
  if (is_op("(")) {
    Depth depth(*this, token.at);
    next();
    auto e = parse_tuple({.no_cond = false, .parens = true, .end = {}});
    expect_op(")");
    return e;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  fail("an expression is expected, not " + describe(token));
}

bool Parser::at_tuple_end(const TupleOptions& options) const {
  auto type = current().type;
  return type == TokenType::kVariableEnd || type == TokenType::kBlockEnd || is_op(")") ||
         (!options.end.empty() && is_name(options.end));
}

ExprPtr Parser::parse_tuple(TupleOptions options) {
  auto at = current().at;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_tuple_end(options)) break;
    items.push_back(options.no_cond ? parse_expr_no_cond() : parse_expr());
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!options.parens) fail("an expression is expected, not " + describe(current()));
  }
  auto e = make(ExprKind::kTuple, at);
  for (auto& item : items) adopt(*e, std::move(item));
  return e;
}

ExprPtr Parser::parse_list() {
  auto e = make(ExprKind::kList, current().at);
  Depth depth(*this, e->at);
  next();
  while (!is_op("]")) {
    if (!e->children.empty()) expect_op(",");
    if (is_op("]")) break;
    adopt(*e, parse_expr());
  }
  next();
  return e;
}

ExprPtr Parser::parse_dict() {
  auto e = make(ExprKind::kDict, current().at);
  Depth depth(*this, e->at);
  next();
  while (!is_op("}")) {
    if (!e->children.empty()) expect_op(",");
    if (is_op("}")) break;
    adopt(*e, parse_expr());
    expect_op(":");
    adopt(*e, parse_expr());
  }
  next();
  return e;
}

ExprPtr Parser::parse_postfix(ExprPtr e) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      e = parse_subscript(std::move(e));
    } else if (is_op("(")) {
      e = parse_call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  auto at = current().at;
  if (skip_op(".")) {
    Token name = current();
    if (name.type == TokenType::kName) {
      auto e = make(ExprKind::kGetAttr, at);
      e->name = name.text;
      next();
      adopt(*e, std::move(object));
      return e;
    }
    if (name.type != TokenType::kInteger) fail("a name or a number is expected behind '.'");
    auto e = make(ExprKind::kGetItem, at);
    auto index = make(ExprKind::kConst, name.at);
    index->constant = Value(name.integer);
    next();
    adopt(*e, std::move(object));
    adopt(*e, std::move(index));
    return e;
  }
  Depth depth(*this, at);
  next();
  std::vector<ExprPtr> indices;
  bool slices = false;
  while (!is_op("]")) {
    if (!indices.empty()) expect_op(",");
    indices.push_back(parse_index());
    slices = slices || indices.back()->kind == ExprKind::kSlice;
  }
  next();
  if (indices.size() == 1 && slices) {  // parse_index left the place of the object free
    auto e = std::move(indices[0]);
    e->depth = std::max(e->depth, object->depth + 1);
    e->at = at;
    e->children[0] = std::move(object);
    if (e->depth > kMaxTreeDepth) {
      fail_at(at, ErrorCode::kLimit, "the expression has too many levels");
    }
    return e;
  }
  if (slices) fail_at(at, ErrorCode::kUnsupported, "a tuple of slices is not supported");
  auto e = make(ExprKind::kGetItem, at);
  adopt(*e, std::move(object));
  if (indices.size() == 1) {
    adopt(*e, std::move(indices[0]));
  } else {
    auto tuple = make(ExprKind::kTuple, at);
    for (auto& index : indices) adopt(*tuple, std::move(index));
    adopt(*e, std::move(tuple));
  }
  return e;
}

ExprPtr Parser::parse_index() {
  auto at = current().at;
  ExprPtr start;
  if (!is_op(":")) {
    start = parse_expr();
    if (!is_op(":")) return start;
  }
  next();
  auto ends = [&] { return is_op("]") || is_op(",") || is_op(":"); };
  ExprPtr stop, step;
  if (!ends()) stop = parse_expr();
  if (skip_op(":") && !ends()) step = parse_expr();
  auto e = make(ExprKind::kSlice, at);
  e->children.push_back(nullptr);  // the object
  adopt(*e, std::move(start));
  adopt(*e, std::move(stop));
  adopt(*e, std::move(step));
  return e;
}

CallArgs Parser::parse_args() {
  CallArgs args;
  auto at = current().at;
  Depth depth(*this, at);
  expect_op("(");
  auto need = [&](bool ok) {
    if (!ok) fail_at(at, ErrorCode::kInvalidData, "the order of the call's arguments is wrong");
  };
  bool first = true;
  while (!is_op(")")) {
    if (!first) {
      expect_op(",");
      if (is_op(")")) break;
    }
    first = false;
    if (skip_op("*")) {
      need(!args.star && !args.star_star);
      args.star = parse_expr();
    } else if (skip_op("**")) {
      need(!args.star_star);
      args.star_star = parse_expr();
    } else if (current().type == TokenType::kName && look().type == TokenType::kOperator &&
               look().text == "=") {
      need(!args.star_star);
      auto name = current().text;
      for (auto& [other, value] : args.keywords) {
        if (other == name) fail("the argument '" + describe_name(name) + "' is given twice");
      }
      next();
      next();
      args.keywords.emplace_back(name, parse_expr());
    } else {
      need(!args.star && !args.star_star && args.keywords.empty());
      args.positional.push_back(parse_expr());
    }
  }
  next();
  return args;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  auto e = make(ExprKind::kCall, current().at);
  e->args = parse_args();
  adopt(*e, std::move(callee));
  adopt_args(*e);
  return e;
}

std::string Parser::dotted_name() {
  if (current().type != TokenType::kName) fail("a name is expected, not " + describe(current()));
  std::string name = current().text;
  next();
  while (skip_op(".")) {
    if (current().type != TokenType::kName) fail("a name is expected behind '.'");
    name += "." + current().text;
    next();
  }
  return name;
}

ExprPtr Parser::parse_filters(ExprPtr e, bool start_inline) {
  if (start_inline) e = parse_filter(std::move(e));
  while (skip_op("|")) e = parse_filter(std::move(e));
  return e;
}

ExprPtr Parser::parse_filter(ExprPtr input) {
  auto e = make(ExprKind::kFilter, current().at);
  e->name = dotted_name();
  if (!find_filter(e->name)) {
    fail_at(e->at, ErrorCode::kUnsupported, "unknown filter '" + describe_name(e->name) + "'");
  }
  if (is_op("(")) e->args = parse_args();
  adopt(*e, std::move(input));
  adopt_args(*e);
  // A filter or test that is named by a string is looked up here as well.
  auto named = [&](std::size_t i) -> const Str* {
    auto& args = e->args.positional;
    return i < args.size() && args[i]->kind == ExprKind::kConst ? args[i]->constant.str() : nullptr;
  };
  bool attr = e->name == "selectattr" || e->name == "rejectattr";
  if (e->name == "map") {
    if (auto s = named(0); s && !find_filter(s->text.bytes)) {
      fail_at(e->at, ErrorCode::kUnsupported,
              "unknown filter '" + describe_name(s->text.bytes) + "' in map");
    }
  } else if (attr || e->name == "select" || e->name == "reject") {
    if (auto s = named(attr ? 1 : 0); s && !find_test(s->text.bytes)) {
      fail_at(e->at, ErrorCode::kUnsupported,
              "unknown test '" + describe_name(s->text.bytes) + "' in " + e->name);
    }
  }
  return e;
}

ExprPtr Parser::parse_test(ExprPtr object) {
  auto e = make(ExprKind::kTest, current().at);
  next();
  bool negated = skip_name("not");
  e->name = dotted_name();
  if (!find_test(e->name)) {
    fail_at(e->at, ErrorCode::kUnsupported, "unknown test '" + describe_name(e->name) + "'");
  }
  if (is_op("(")) {
    e->args = parse_args();
  } else {
    auto type = current().type;
    bool starts = type == TokenType::kName || type == TokenType::kString ||
                  type == TokenType::kInteger || type == TokenType::kFloat || is_op("[") ||
                  is_op("{");
    if (starts && !is_name("else") && !is_name("or") && !is_name("and")) {
      if (is_name("is")) fail("tests can't be chained with 'is'");
      e->args.positional.push_back(parse_postfix(parse_primary()));
    }
  }
  adopt(*e, std::move(object));
  adopt_args(*e);
  if (!negated) return e;
  auto outer = make(ExprKind::kNot, e->at);
  adopt(*outer, std::move(e));
  return outer;
}

}  // namespace munia::text::tmpl
