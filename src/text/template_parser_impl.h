// The parser's class, shared by its two source files.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "text/template_parser.h"

namespace munia::text::tmpl {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  /// Statements up to a tag of `ends` (consumed, named in `found`) or the end of the template.
  Body parse_body(std::initializer_list<std::string_view> ends, std::string* found);

 private:
  struct TupleOptions {
    bool no_cond = false;    // no inline if
    bool parens = false;     // within ( ): may be empty
    std::string_view end{};  // a name that ends the tuple
  };
  struct TargetOptions {
    bool name_space = false;  // ns.attr is allowed
    std::string_view end{};
  };
  struct Depth {
    Depth(Parser& parser, Position at) : parser_(parser) { parser.enter(at); }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser& parser_;
  };
  void enter(Position at);

  // Tokens.
  const Token& current() const { return tokens_[pos_]; }
  const Token& look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  void next() {
    if (pos_ + 1 < tokens_.size()) ++pos_;
  }
  bool is_op(std::string_view op) const {
    return current().type == TokenType::kOperator && current().text == op;
  }
  bool is_name(std::string_view name) const {
    return current().type == TokenType::kName && current().text == name;
  }
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }
  [[noreturn]] void fail(const std::string& message) const {
    fail_at(current().at, ErrorCode::kInvalidData, message);
  }
  void expect(TokenType type, std::string_view what) {
    if (current().type != type) {
      fail(std::string(what) + " is expected, not " + describe(current()));
    }
    next();
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail("'" + std::string(op) + "' is expected, not " + describe(current()));
  }
  static std::string describe_name(const std::string& name) {
    return name.size() <= 60 ? name : name.substr(0, 60) + "…";
  }

  // Statements.
  StmtPtr make_stmt(StmtKind kind, Position at);
  std::string parse_block(Body& body, std::initializer_list<std::string_view> ends);
  StmtPtr parse_statement();
  StmtPtr parse_if(Position at);
  StmtPtr parse_for(Position at);
  StmtPtr parse_set(Position at);
  StmtPtr parse_macro(Position at);
  StmtPtr parse_call_block(Position at);
  StmtPtr parse_filter_block(Position at);
  StmtPtr parse_with(Position at);
  StmtPtr parse_print(Position at);
  void parse_signature(MacroDef& macro);
  void parse_macro_body(MacroDef& macro, std::string_view end);
  void forbid_loop_target(const Expr& target);
  void check_assignable(const Token& token) const;

  // Expressions.
  ExprPtr make(ExprKind kind, Position at) const;
  void adopt(Expr& parent, ExprPtr child) const;  // keeps the depth, and its limit
  void adopt_args(Expr& parent) const;
  ExprPtr parse_target(TargetOptions options);
  ExprPtr parse_target_item(bool name_space);
  ExprPtr parse_expr();
  ExprPtr parse_expr_no_cond() { return parse_or(); }
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_add();
  ExprPtr parse_concat();
  ExprPtr parse_mul();
  ExprPtr parse_pow();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_tuple(TupleOptions options);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr e);
  ExprPtr parse_subscript(ExprPtr e);
  ExprPtr parse_index();
  ExprPtr parse_call(ExprPtr e);
  CallArgs parse_args();
  ExprPtr parse_filters(ExprPtr e, bool start_inline);
  ExprPtr parse_filter(ExprPtr e);
  ExprPtr parse_test(ExprPtr e);
  std::string dotted_name();
  bool at_tuple_end(const TupleOptions& options) const;

  std::vector<Token> tokens_;
  std::size_t pos_ = 0;
  std::uint32_t depth_ = 0;
  int loops_ = 0;      // loops that a break may leave
  int for_depth_ = 0;  // loops around, also through macros
  std::vector<MacroDef*> macros_;
};

}  // namespace munia::text::tmpl
