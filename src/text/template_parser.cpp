// Recursive descent over the tokens, with jinja2's grammar: the statements. Expressions are in
// template_parser_expr.cpp.
#include "text/template_parser.h"

#include "text/template_parser_impl.h"

namespace munia::text::tmpl {

ScopedBody parse_template(std::vector<Token> tokens) {
  ScopedBody root;
  Parser parser(std::move(tokens));
  root.statements = parser.parse_body({}, nullptr);
  track_identifiers(root);
  return root;
}

void Parser::enter(Position at) {
  if (++depth_ > kMaxParseDepth) {
    fail_at(at, ErrorCode::kLimit,
            "brackets and blocks are nested deeper than " + std::to_string(kMaxParseDepth));
  }
}

StmtPtr Parser::make_stmt(StmtKind kind, Position at) {
  auto s = std::make_unique<Stmt>();
  s->kind = kind;
  s->at = at;
  return s;
}

Body Parser::parse_body(std::initializer_list<std::string_view> ends, std::string* found) {
  Body body;
  while (true) {
    const Token& token = current();
    if (token.type == TokenType::kEof) {
      if (ends.size() == 0) return body;
      fail_at(token.at, ErrorCode::kInvalidData,
              "the template ends before '" + std::string(*ends.begin()) + "'");
    }
    if (token.type == TokenType::kData) {
      auto s = make_stmt(StmtKind::kText, token.at);
      s->text = std::make_shared<Str>(Str{MarkedText::from_template(token.text), false});
      body.push_back(std::move(s));
      next();
    } else if (token.type == TokenType::kVariableBegin) {
      auto s = make_stmt(StmtKind::kOutput, token.at);
      next();
      s->exprs.push_back(parse_tuple({}));
      expect(TokenType::kVariableEnd, "'}}'");
      body.push_back(std::move(s));
    } else {
      next();  // block begin: nothing else comes out of the lexer here
      for (auto end : ends) {
        if (is_name(end)) {
          *found = std::string(end);
          next();
          return body;
        }
      }
      body.push_back(parse_statement());
      expect(TokenType::kBlockEnd, "'%}'");
    }
  }
}

/// After a tag's head: "%}", then statements up to one of `ends`, which is consumed.
std::string Parser::parse_block(Body& body, std::initializer_list<std::string_view> ends) {
  skip_op(":");
  Depth depth(*this, current().at);
  expect(TokenType::kBlockEnd, "'%}'");
  std::string found;
  body = parse_body(ends, &found);
  return found;
}

StmtPtr Parser::parse_statement() {
  Token token = current();
  if (token.type != TokenType::kName) fail("a tag's name is expected");
  const std::string& tag = token.text;
  next();
  if (tag == "if") return parse_if(token.at);
  if (tag == "for") return parse_for(token.at);
  if (tag == "set") return parse_set(token.at);
  if (tag == "macro") return parse_macro(token.at);
  if (tag == "call") return parse_call_block(token.at);
  if (tag == "filter") return parse_filter_block(token.at);
  if (tag == "with") return parse_with(token.at);
  if (tag == "print") return parse_print(token.at);
  if (tag == "generation") {
    auto s = make_stmt(StmtKind::kGeneration, token.at);
    auto loops = std::exchange(loops_, 0);
    parse_block(s->body.statements, {"endgeneration"});
    loops_ = loops;
    return s;
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) {
      fail_at(token.at, ErrorCode::kInvalidData, "'" + tag + "' stands outside of a loop");
    }
    return make_stmt(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue, token.at);
  }
  for (auto known : {"block", "extends", "include", "import", "from", "autoescape"}) {
    if (tag == known) {
      fail_at(token.at, ErrorCode::kUnsupported, "the tag '" + tag + "' is not supported");
    }
  }
  fail_at(token.at, ErrorCode::kUnsupported, "unknown tag '" + describe_name(tag) + "'");
}

StmtPtr Parser::parse_if(Position at) {
  auto s = make_stmt(StmtKind::kIf, at);
  while (true) {
    Branch branch;
    branch.test = parse_tuple({.no_cond = true});
    auto end = parse_block(branch.body, {"elif", "else", "endif"});
    s->branches.push_back(std::move(branch));
    if (end == "elif") continue;
    if (end == "else") parse_block(s->else_body, {"endif"});
    return s;
  }
}

StmtPtr Parser::parse_for(Position at) {
  auto s = make_stmt(StmtKind::kFor, at);
  s->targets.push_back(parse_target({.end = "in"}));
  forbid_loop_target(*s->targets[0]);
  if (!skip_name("in")) fail("'in' is expected, not " + describe(current()));
  s->exprs.push_back(parse_tuple({.no_cond = true, .end = "recursive"}));
  if (skip_name("if")) s->filter = parse_expr();
  s->recursive = skip_name("recursive");
  ++loops_;
  ++for_depth_;
  auto end = parse_block(s->body.statements, {"endfor", "else"});
  --loops_;
  if (end == "else") {
    s->has_else = true;
    parse_block(s->for_else.statements, {"endfor"});
  }
  --for_depth_;
  return s;
}

void Parser::forbid_loop_target(const Expr& target) {
  if (target.kind == ExprKind::kName && target.name == "loop") {
    fail_at(target.at, ErrorCode::kInvalidData, "the variable 'loop' can't be assigned in a loop");
  }
  for (auto& child : target.children) forbid_loop_target(*child);
}

StmtPtr Parser::parse_set(Position at) {
  auto target = parse_target({.name_space = true});
  if (for_depth_ > 0) forbid_loop_target(*target);
  if (skip_op("=")) {
    auto s = make_stmt(StmtKind::kSet, at);
    s->targets.push_back(std::move(target));
    s->exprs.push_back(parse_tuple({}));
    return s;
  }
  auto s = make_stmt(StmtKind::kSetBlock, at);
  s->targets.push_back(std::move(target));
  s->filter = parse_filters(nullptr, false);
  parse_block(s->body.statements, {"endset"});
  return s;
}

void Parser::parse_signature(MacroDef& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.params.empty()) expect_op(",");
    if (current().type != TokenType::kName) fail("a parameter's name is expected");
    check_assignable(current());
    macro.params.push_back(current().text);
    next();
    if (skip_op("=")) {
      macro.defaults.push_back(parse_expr());
    } else if (!macro.defaults.empty()) {
      fail("a parameter without default follows one with default");
    }
  }
  next();
}

void Parser::parse_macro_body(MacroDef& macro, std::string_view end) {
  auto loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  parse_block(macro.body.statements, {end});
  macros_.pop_back();
  loops_ = loops;
  for (auto& param : macro.params) {
    if (param == "caller" && macro.uses_caller) {
      fail("a macro parameter named 'caller' is not supported");
    }
    if (param == "kwargs") macro.uses_kwargs = false;
    if (param == "varargs") macro.uses_varargs = false;
  }
}

StmtPtr Parser::parse_macro(Position at) {
  auto s = make_stmt(StmtKind::kMacro, at);
  if (current().type != TokenType::kName) fail("the macro's name is expected");
  check_assignable(current());
  s->macro = std::make_unique<MacroDef>();
  s->macro->name = current().text;
  next();
  parse_signature(*s->macro);
  parse_macro_body(*s->macro, "endmacro");
  return s;
}

StmtPtr Parser::parse_call_block(Position at) {
  auto s = make_stmt(StmtKind::kCallBlock, at);
  s->macro = std::make_unique<MacroDef>();
  s->macro->name = "caller";
  if (is_op("(")) parse_signature(*s->macro);
  s->exprs.push_back(parse_expr());
  if (s->exprs[0]->kind != ExprKind::kCall) {
    fail_at(s->exprs[0]->at, ErrorCode::kInvalidData, "'call' needs a call of a macro");
  }
  parse_macro_body(*s->macro, "endcall");
  return s;
}

StmtPtr Parser::parse_filter_block(Position at) {
  auto s = make_stmt(StmtKind::kFilterBlock, at);
  s->filter = parse_filters(nullptr, true);
  parse_block(s->body.statements, {"endfilter"});
  return s;
}

StmtPtr Parser::parse_with(Position at) {
  auto s = make_stmt(StmtKind::kWith, at);
  while (current().type != TokenType::kBlockEnd && !is_op(":")) {
    if (!s->targets.empty()) expect_op(",");
    s->targets.push_back(parse_target({}));
    expect_op("=");
    s->exprs.push_back(parse_expr());
  }
  parse_block(s->body.statements, {"endwith"});
  return s;
}

StmtPtr Parser::parse_print(Position at) {
  auto s = make_stmt(StmtKind::kOutput, at);
  while (current().type != TokenType::kBlockEnd) {
    if (!s->exprs.empty()) expect_op(",");
    s->exprs.push_back(parse_expr());
  }
  return s;
}

}  // namespace munia::text::tmpl
