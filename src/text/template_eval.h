// The evaluator of a parsed chat template: one object a rendering. It holds the scopes, the
// output, and the counters of the limits; filters, tests and methods are functions that get it.
#pragma once

#include <boost/json/value.hpp>
#include <initializer_list>
#include <optional>

#include "text/chat_template.h"
#include "text/template_ast.h"
#include "text/template_text.h"
#include "text/template_value.h"

namespace munia::text::tmpl {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> vars;
  bool captured = false;  // a macro keeps it

  Value* find(std::string_view name) {
    for (auto& [key, value] : vars)
      if (key == name) return &value;
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    if (auto old = find(name)) {
      *old = std::move(value);
    } else {
      vars.emplace_back(name, std::move(value));
    }
  }
};
using ScopePtr = std::shared_ptr<Scope>;

struct Callable {
  enum Kind { kGlobal, kMethod, kMacro };
  Kind kind;
  std::string name;
  Value self;                       // kMethod
  const MacroDef* macro = nullptr;  // kMacro
  ScopePtr scope;                   // kMacro: where it was defined
};

/// A running for loop, as its body sees it in `loop`.
struct LoopState {
  const Stmt* stmt = nullptr;
  ScopePtr outer;
  IteratorPtr source;
  bool filtered = false;      // the source still has to pass the loop's `if`
  std::optional<Int> length;  // known without walking
  Int index0 = -1;
  std::optional<Value> after;  // looked at ahead of time
  Value current{Missing{}};
  Value before{Missing{}};
  Value last_changed{Missing{}};
  Int depth0 = 0;
};

enum class Flow { kNormal, kBreak, kContinue };

class Interp {
 public:
  Interp(Dict context, const TemplateLimits& limits)
      : context_(std::move(context)), limits_(limits) {}
  ~Interp();
  Interp(const Interp&) = delete;
  Interp& operator=(const Interp&) = delete;

  MarkedText run(const ScopedBody& root);
  Position position() const { return at_; }

  // Limits.
  void charge(std::uint64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.max_steps) steps_exceeded();
  }
  void charge_bytes(std::uint64_t bytes);
  /// Makes a string value and charges its bytes.
  Value str(MarkedText text, bool markup = false);

  // Expressions.
  Value eval(const Expr& e);
  Value call(const Value& callee, Args& args);
  Value call_filter(const std::string& name, const Value& input, Args& args);
  bool call_test(const std::string& name, const Value& input, Args& args);

  // Python's operations.
  static bool truthy(const Value& v);
  bool equal(const Value& a, const Value& b);
  int compare(const Value& a, const Value& b);  // <0, 0, >0; raises where Python does
  bool contains(const Value& container, const Value& item);
  bool less(const Value& a, const Value& b) { return compare(a, b) < 0; }
  Value binary(Op op, const Value& a, const Value& b);
  Value get_attr(const Value& object, const std::string& name);
  Value get_item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Int length(const Value& v);
  bool has_length(const Value& v, Int* out);
  /// All items of an iterable (uses up an iterator).
  std::vector<Value> items_of(const Value& v);
  MarkedText to_text(const Value& v);  // str(v)
  void append_repr(MarkedText& out, const Value& v, int depth = 0);
  MarkedText to_json(const Value& v, Args& args);
  Value format_percent(const Str& format, const Value& args);
  Value format_braces(const Str& format, Args& args);
  Value escape_html(const Value& v);

  /// The arguments by name: "bind(args, "join", {"d", "attribute"})"; null where not given.
  /// Raises for unknown, doubled, surplus and missing ones (the first `required` must be there).
  std::vector<const Value*> bind(Args& args, std::string_view what,
                                 std::initializer_list<std::string_view> names,
                                 std::size_t required = 0);

 private:
  friend struct DepthGuard;
  [[noreturn]] void steps_exceeded();

  Value eval_name(const Expr& e);
  Value eval_collection(const Expr& e);
  Value eval_binary(const Expr& e);
  Value eval_concat(const Expr& e);
  Value eval_compare(const Expr& e);
  Value eval_unary(const Expr& e);
  Value eval_slice(const Expr& e);
  Value eval_call(const Expr& e);
  Value eval_filter(const Expr& e, const Value* input);
  Args eval_args(const CallArgs& args);

  Value loop_attr(const LoopPtr& loop, const std::string& name, bool& found);
  bool loop_next(LoopState& loop, Value& out);
  bool loop_peek(LoopState& loop);
  Value run_recursive(const LoopPtr& loop, Args& args);
  Value call_macro(const Callable& callable, Args& args);
  Value call_global(const std::string& name, Args& args);
  Value call_loop_method(const LoopPtr& loop, const std::string& name, Args& args);
  Value call_method(const Value& self, const std::string& name, Args& args);
  Value call_str_method(const Str& self, const std::string& name, Args& args);
  Value call_dict_method(const Value& self, const std::string& name, Args& args);
  Value call_list_method(const Value& self, const std::string& name, Args& args);
  Value make_namespace(Args& args);
  Dict dict_from_args(Args& args);
  Value make_range(Args& args);
  std::optional<Value> builtin_attr(const Value& object, const std::string& name);
  Value add(const Value& a, const Value& b);
  Value multiply(const Value& a, const Value& b);

  Flow exec(const Stmt& s);
  Flow exec_body(const Body& body);
  Flow exec_if(const Stmt& s);
  Flow exec_for(const Stmt& s, const Value& iterable, Int depth0);
  Flow exec_set_block(const Stmt& s);
  Flow exec_filter_block(const Stmt& s);
  Flow exec_with(const Stmt& s);
  void exec_macro(const Stmt& s);
  void exec_call_block(const Stmt& s);
  void assign(const Expr& target, const Value& value, Scope& scope);
  void output(const MarkedText& text);
  Value define_macro(const MacroDef& macro);
  ScopePtr enter(const ScopedBody& body, ScopePtr parent);

  Dict context_;
  TemplateLimits limits_;
  std::uint64_t steps_ = 0;
  std::uint64_t work_bytes_ = 0;
  std::uint32_t depth_ = 0;
  Position at_;
  ScopePtr scope_;
  MarkedText* out_ = nullptr;
  std::uint64_t output_bytes_ = 0;
  std::vector<NamespacePtr> namespaces_;  // all of them: emptied at the end, so no cycle stays
  std::vector<ScopePtr> captured_;        // likewise the scopes that macros keep
};

/// Counts the evaluator's depth; raises when it is too deep.
struct DepthGuard {
  explicit DepthGuard(Interp& in);
  ~DepthGuard() { --in_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  Interp& in_;
};

using FilterFn = Value (*)(Interp&, const Value&, Args&);
using TestFn = bool (*)(Interp&, const Value&, Args&);
FilterFn find_filter(std::string_view name);
TestFn find_test(std::string_view name);

/// Python attributes of str, dict, list and so on that exist there but not here.
bool is_unsupported_attr(const Value& object, std::string_view name);

/// JSON to values. Strings are the user's unless `trusted`. Raises when too deep or not UTF-8.
Value from_json(const boost::json::value& json, bool trusted, std::uint32_t depth = 0);

}  // namespace munia::text::tmpl
