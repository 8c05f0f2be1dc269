// Running the statements of a template: output, branches, loops, assignments, macros.
#include <algorithm>

#include "text/template_eval.h"

namespace munia::text::tmpl {

namespace {
/// Sets a member for a block of code and puts the old value back, also when leaving by a throw.
template <class T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), old_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T old_;
};
}  // namespace

Interp::~Interp() {
  // Namespaces and macros' scopes can hold each other in circles and in long chains; both lists
  // still hold every one of them while the insides are taken out.
  scope_.reset();
  for (auto& ns : namespaces_) ns->attrs.clear();
  for (auto& scope : captured_) {
    scope->vars.clear();
    scope->parent.reset();
  }
}

MarkedText Interp::run(const ScopedBody& root) {
  MarkedText out;
  out_ = &out;
  scope_ = enter(root, nullptr);
  exec_body(root.statements);
  out_ = nullptr;
  return out;
}

ScopePtr Interp::enter(const ScopedBody& body, ScopePtr parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = std::move(parent);
  charge(1 + body.hidden.size());
  for (auto& name : body.hidden) scope->vars.emplace_back(name, Missing{});
  return scope;
}

void Interp::output(const MarkedText& text) {
  output_bytes_ += text.bytes.size();
  if (output_bytes_ > limits_.max_output_bytes) {
    raise("the template writes more than " + std::to_string(limits_.max_output_bytes) + " bytes",
          ErrorCode::kLimit);
  }
  out_->append(text);
}

Flow Interp::exec_body(const Body& body) {
  for (auto& s : body) {
    charge(1);
    auto flow = exec(*s);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Flow Interp::exec(const Stmt& s) {
  DepthGuard depth(*this);
  at_ = s.at;
  switch (s.kind) {
    case StmtKind::kText:
      output(s.text->text);
      return Flow::kNormal;
    case StmtKind::kOutput:
      for (auto& e : s.exprs) {
        auto value = eval(*e);
        at_ = e->at;
        if (auto text = value.str()) {
          output(text->text);
        } else {
          output(to_text(value));
        }
      }
      return Flow::kNormal;
    case StmtKind::kIf:
      return exec_if(s);
    case StmtKind::kFor: {
      auto iterable = eval(*s.exprs[0]);
      at_ = s.at;
      if (!s.recursive) return exec_for(s, iterable, 0);
      exec_for(s, iterable, 0);
      return Flow::kNormal;
    }
    case StmtKind::kSet: {
      if (s.targets[0]->kind != ExprKind::kName) {
        // Like jinja2: the namespaces of the target are checked before the value is computed.
        assign(*s.targets[0], Value(Missing{}), *scope_);
      }
      auto value = eval(*s.exprs[0]);
      at_ = s.at;
      assign(*s.targets[0], value, *scope_);
      return Flow::kNormal;
    }
    case StmtKind::kSetBlock:
      return exec_set_block(s);
    case StmtKind::kMacro:
      exec_macro(s);
      return Flow::kNormal;
    case StmtKind::kCallBlock:
      exec_call_block(s);
      return Flow::kNormal;
    case StmtKind::kFilterBlock:
      return exec_filter_block(s);
    case StmtKind::kWith:
      return exec_with(s);
    case StmtKind::kGeneration: {
      Restore<ScopePtr> scope(scope_, enter(s.body, scope_));
      return exec_body(s.body.statements);
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Flow Interp::exec_if(const Stmt& s) {
  for (auto& branch : s.branches) {
    charge(1);
    if (truthy(eval(*branch.test))) return exec_body(branch.body);
  }
  return exec_body(s.else_body);
}

/// Assigns to a name, a namespace's attribute, or each part of a tuple. A Missing value only
/// checks that the namespaces of the target are namespaces.
void Interp::assign(const Expr& target, const Value& value, Scope& scope) {
  charge(1);
  bool only_check = value.is_missing();
  if (target.kind == ExprKind::kName) {
    if (!only_check) scope.set(target.name, value);
    return;
  }
  if (target.kind == ExprKind::kNsRef) {
    Expr name{ExprKind::kName, target.at, 1, Value(), target.name, "", Op::kAdd, {}, {}, {}};
    auto object = eval_name(name);
    auto ns = object.get<NamespacePtr>();
    if (!ns) raise("can't assign an attribute to '" + target.name + "': it is not a namespace");
    if (only_check) return;
    if (target.attr.starts_with('_')) raise("a namespace can't have the attribute " + target.attr);
    charge((*ns)->attrs.size() / 8);
    for (auto& [key, old] : (*ns)->attrs) {
      if (key == target.attr) {
        old = value;
        return;
      }
    }
    (*ns)->attrs.emplace_back(target.attr, value);
    return;
  }
  if (only_check) {
    for (auto& child : target.children) assign(*child, value, scope);
    return;
  }
  auto items = items_of(value);
  if (items.size() != target.children.size()) {
    raise("can't unpack " + std::to_string(items.size()) + " values to " +
          std::to_string(target.children.size()) + " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i], scope);
}

bool Interp::loop_next(LoopState& loop, Value& out) {
  auto& source = *loop.source;
  while (source.pos < source.items.size()) {
    charge(1);
    auto item = source.items[source.pos++];
    if (loop.filtered) {
      auto scope = std::make_shared<Scope>();
      scope->parent = loop.outer;
      auto at = at_;
      assign(*loop.stmt->targets[0], item, *scope);
      Restore<ScopePtr> restore(scope_, scope);
      bool pass = truthy(eval(*loop.stmt->filter));
      at_ = at;
      if (!pass) continue;
    }
    out = std::move(item);
    return true;
  }
  return false;
}

bool Interp::loop_peek(LoopState& loop) {
  if (loop.after) return true;
  Value item;
  if (!loop_next(loop, item)) return false;
  loop.after = std::move(item);
  return true;
}

Flow Interp::exec_for(const Stmt& s, const Value& iterable, Int depth0) {
  auto loop = std::make_shared<LoopState>();
  loop->stmt = &s;
  loop->outer = scope_;
  loop->depth0 = depth0;
  loop->filtered = s.filter != nullptr;
  Int length = 0;
  if (!loop->filtered && has_length(iterable, &length)) loop->length = length;
  if (auto it = iterable.get<IteratorPtr>()) {
    loop->source = *it;
  } else {
    loop->source = std::make_shared<Iterator>();
    loop->source->items = items_of(iterable);
  }
  bool completed = false;  // the body ran to its end at least once
  auto outer = scope_;
  Restore<ScopePtr> restore(scope_, outer);
  while (true) {
    Value item;
    if (loop->after) {
      item = *std::exchange(loop->after, std::nullopt);
    } else if (!loop_next(*loop, item)) {
      break;
    }
    ++loop->index0;
    loop->before = std::exchange(loop->current, item);
    auto scope = enter(s.body, outer);
    scope->set("loop", Value(loop));
    assign(*s.targets[0], item, *scope);
    scope_ = scope;
    auto flow = exec_body(s.body.statements);
    scope_ = outer;
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) completed = true;
  }
  if (s.has_else && !completed) {
    scope_ = enter(s.for_else, outer);
    return exec_body(s.for_else.statements);
  }
  return Flow::kNormal;
}

Value Interp::run_recursive(const LoopPtr& loop, Args& args) {
  if (!loop->stmt->recursive) raise("the loop needs the 'recursive' marker to be called");
  if (args.positional.size() != 1 || !args.keywords.empty()) raise("loop() takes one argument");
  MarkedText buffer;
  Restore<MarkedText*> out(out_, &buffer);
  Restore<ScopePtr> scope(scope_, loop->outer);
  exec_for(*loop->stmt, args.positional[0], loop->depth0 + 1);
  return str(std::move(buffer));
}

Flow Interp::exec_set_block(const Stmt& s) {
  MarkedText buffer;
  Value value;
  {
    Restore<MarkedText*> out(out_, &buffer);
    Restore<ScopePtr> scope(scope_, enter(s.body, scope_));
    auto flow = exec_body(s.body.statements);
    if (flow != Flow::kNormal) return flow;
    value = str(std::move(buffer));
    at_ = s.at;
    if (s.filter) value = eval_filter(*s.filter, &value);
  }
  at_ = s.at;
  assign(*s.targets[0], value, *scope_);
  return Flow::kNormal;
}

Flow Interp::exec_filter_block(const Stmt& s) {
  MarkedText buffer;
  Value value;
  {
    Restore<MarkedText*> out(out_, &buffer);
    Restore<ScopePtr> scope(scope_, enter(s.body, scope_));
    auto flow = exec_body(s.body.statements);
    if (flow != Flow::kNormal) return flow;
    value = str(std::move(buffer));
    at_ = s.at;
    value = eval_filter(*s.filter, &value);
  }
  output(to_text(value));
  return Flow::kNormal;
}

Flow Interp::exec_with(const Stmt& s) {
  auto scope = enter(s.body, scope_);
  for (std::size_t i = 0; i < s.targets.size(); ++i) {
    assign(*s.targets[i], eval(*s.exprs[i]), *scope);
  }
  Restore<ScopePtr> restore(scope_, scope);
  return exec_body(s.body.statements);
}

Value Interp::define_macro(const MacroDef& macro) {
  if (!scope_->captured) {
    scope_->captured = true;
    captured_.push_back(scope_);
  }
  auto callable = std::make_shared<Callable>();
  callable->kind = Callable::kMacro;
  callable->name = macro.name;
  callable->macro = &macro;
  callable->scope = scope_;
  return Value(CallablePtr(std::move(callable)));
}

void Interp::exec_macro(const Stmt& s) { scope_->set(s.macro->name, define_macro(*s.macro)); }

void Interp::exec_call_block(const Stmt& s) {
  const Expr& e = *s.exprs[0];
  auto caller = define_macro(*s.macro);
  auto callee = eval(*e.children[0]);
  auto args = eval_args(e.args);
  args.keywords.emplace_back("caller", caller);
  at_ = e.at;
  output(to_text(call(callee, args)));
}

Value Interp::call_macro(const Callable& callable, Args& args) {
  const MacroDef& macro = *callable.macro;
  auto scope = enter(macro.body, callable.scope);
  std::size_t n = macro.params.size();
  auto take = [&](std::string_view name, Value& value) {
    for (std::size_t i = 0; i < args.keywords.size(); ++i) {
      if (args.keywords[i].first != name) continue;
      value = args.keywords[i].second;
      args.keywords.erase(args.keywords.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  };
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < n; ++i) {
    Value value;
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else if (!take(macro.params[i], value)) {
      missing.push_back(i);
      value = Value(Missing{});
    }
    scope->set(macro.params[i], value);
  }
  if (macro.uses_caller) {
    Value caller;
    if (!take("caller", caller) || caller.is_none()) caller = make_undefined("No caller defined");
    scope->set("caller", caller);
  }
  if (macro.uses_kwargs) {
    Dict kwargs;
    std::uint64_t work = 0;
    for (auto& [key, value] : args.keywords) kwargs.set(make_engine_str(key), value, work);
    charge(work);
    scope->set("kwargs", make_dict(std::move(kwargs)));
  } else if (!args.keywords.empty()) {
    raise("macro '" + macro.name + "' takes no keyword argument '" + args.keywords[0].first + "'");
  }
  if (macro.uses_varargs) {
    auto from = std::min(n, args.positional.size());
    scope->set("varargs", make_tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(from),
                                      args.positional.end()}));
  } else if (args.positional.size() > n) {
    raise("macro '" + macro.name + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  MarkedText buffer;
  Restore<MarkedText*> out(out_, &buffer);
  Restore<ScopePtr> restore(scope_, scope);
  for (auto i : missing) {
    std::size_t first_default = n - macro.defaults.size();
    scope->set(macro.params[i],
               i >= first_default
                   ? eval(*macro.defaults[i - first_default])
                   : make_undefined("parameter '" + macro.params[i] + "' was not provided"));
  }
  exec_body(macro.body.statements);
  return str(std::move(buffer));
}

}  // namespace munia::text::tmpl
