// The parsed form of a chat template: expressions and statements, as jinja2's parser builds them.
// Built once by template_parser.cpp, never changed afterwards, read by template_eval.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace munia::text::tmpl {

enum class ExprKind {
  kConst,
  kName,
  kTuple,
  kList,
  kDict,
  kNeg,
  kPos,
  kBinary,
  kConcat,
  kCompare,
  kAnd,
  kOr,
  kNot,
  kCond,
  kGetAttr,
  kGetItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNsRef
};
enum class Op { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class Cmp { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

struct Expr {
  ExprKind kind;
  Position at;
  std::uint32_t depth = 1;       // of this tree; bounded by the parser
  Value constant;                // kConst
  std::string name;              // kName, kGetAttr, kFilter, kTest, kNsRef (the namespace)
  std::string attr;              // kNsRef
  Op op = Op::kAdd;              // kBinary
  std::vector<Cmp> comparisons;  // kCompare, one less than children
  // kCond: test, then, else or null. kSlice: object, start, stop, step, each but the first or null.
  // kDict: key, value, key, value. kFilter: the input, or null inside a filter block.
  std::vector<ExprPtr> children;
  CallArgs args;  // kCall, kFilter, kTest
};

enum class StmtKind {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kGeneration,
  kBreak,
  kContinue
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

/// A body that has a scope of its own. `hidden` are the names that the body sets without having
/// read them before: until then they are undefined there, even if the context has the name
/// (jinja2's identifier tracking).
struct ScopedBody {
  Body statements;
  std::vector<std::string> hidden;
};

struct MacroDef {
  std::string name;
  std::vector<std::string> params;
  std::vector<ExprPtr> defaults;  // of the last parameters
  ScopedBody body;
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

struct Branch {
  ExprPtr test;
  Body body;
};

struct Stmt {
  StmtKind kind;
  Position at;
  StrPtr text;                      // kText
  std::vector<ExprPtr> exprs;       // kOutput; kSet: value; kWith: values; kCallBlock: the call
  std::vector<ExprPtr> targets;     // kFor, kSet, kSetBlock: one; kWith: several
  ExprPtr filter;                   // kSetBlock (may be null), kFilterBlock; kFor: the `if`
  std::vector<Branch> branches;     // kIf: if and elifs
  Body else_body;                   // kIf
  ScopedBody body;                  // kFor, kSetBlock, kFilterBlock, kWith, kGeneration
  ScopedBody for_else;              // kFor
  bool recursive = false;           // kFor
  bool has_else = false;            // kFor
  std::unique_ptr<MacroDef> macro;  // kMacro, kCallBlock
};

/// Fills in `hidden` of every scope.
void track_identifiers(ScopedBody& root);

/// Whether a loop walks over something called `content`, or over a name that was set to it.
bool walks_content(const ScopedBody& root);

}  // namespace munia::text::tmpl
