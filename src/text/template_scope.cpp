// jinja2's identifier tracking, as far as it shows in the output: a scope that sets a name before
// it reads it does not see the context's value of that name at all. For every scope this finds the
// names that start as undefined there.
#include <set>
#include <string_view>

#include "text/template_ast.h"

namespace munia::text::tmpl {

namespace {

using Names = std::set<std::string_view>;

struct Symbols {
  const Symbols* parent = nullptr;
  Names refs;    // known in this scope
  Names stores;  // set in this scope
  Names hidden;  // set, and neither read before nor known outside

  bool known(std::string_view name) const {
    for (auto s = this; s; s = s->parent)
      if (s->refs.count(name)) return true;
    return false;
  }
  void param(std::string_view name) {
    refs.insert(name);
    stores.insert(name);
    hidden.erase(name);
  }
  void load(std::string_view name) {
    if (!known(name)) refs.insert(name);
  }
  void store(std::string_view name) {
    stores.insert(name);
    if (refs.count(name)) return;
    if (!parent || !parent->known(name)) hidden.insert(name);
    refs.insert(name);
  }
};

class Tracker {
 public:
  void scope(ScopedBody& body, Symbols& symbols) {
    for (auto& s : body.statements) visit(*s, symbols);
    body.hidden.assign(symbols.hidden.begin(), symbols.hidden.end());
    for (auto& s : body.statements) inner_scopes(*s, symbols);
  }

 private:
  void loads(const ExprPtr& e, Symbols& symbols) {
    if (!e) return;
    if (e->kind == ExprKind::kName || e->kind == ExprKind::kNsRef) symbols.load(e->name);
    for (auto& child : e->children) loads(child, symbols);
    for (auto& arg : e->args.positional) loads(arg, symbols);
    for (auto& [name, arg] : e->args.keywords) loads(arg, symbols);
    loads(e->args.star, symbols);
    loads(e->args.star_star, symbols);
  }
  void targets(const ExprPtr& e, Symbols& symbols, bool as_param) {
    if (e->kind == ExprKind::kNsRef) {
      symbols.load(e->name);
    } else if (e->kind == ExprKind::kName) {
      as_param ? symbols.param(e->name) : symbols.store(e->name);
    }
    for (auto& child : e->children) targets(child, symbols, as_param);
  }

  void visit_all(const Body& body, Symbols& symbols) {
    for (auto& s : body) visit(*s, symbols);
  }

  void visit_if(const Stmt& s, std::size_t branch, Symbols& symbols) {
    loads(s.branches[branch].test, symbols);
    Symbols body = symbols, elifs = symbols, other = symbols;
    visit_all(s.branches[branch].body, body);
    if (branch == 0) {
      for (std::size_t i = 1; i < s.branches.size(); ++i) visit_if(s, i, elifs);
      visit_all(s.else_body, other);
    }
    Names stores;
    for (auto branch_symbols : {&body, &elifs, &other})
      for (auto name : branch_symbols->stores)
        if (!symbols.stores.count(name)) stores.insert(name);
    for (auto branch_symbols : {&body, &elifs, &other}) {
      symbols.refs.insert(branch_symbols->refs.begin(), branch_symbols->refs.end());
      symbols.stores.insert(branch_symbols->stores.begin(), branch_symbols->stores.end());
    }
    // What only some branches set is looked up outside in the others.
    for (auto name : stores) symbols.hidden.erase(name);
  }

  void visit(const Stmt& s, Symbols& symbols) {
    switch (s.kind) {
      case StmtKind::kOutput:
      case StmtKind::kWith:
      case StmtKind::kFor:
      case StmtKind::kCallBlock:
        for (auto& e : s.exprs) loads(e, symbols);
        break;
      case StmtKind::kIf:
        visit_if(s, 0, symbols);
        break;
      case StmtKind::kSet:
        loads(s.exprs[0], symbols);
        targets(s.targets[0], symbols, false);
        break;
      case StmtKind::kSetBlock:
        targets(s.targets[0], symbols, false);
        break;
      case StmtKind::kMacro:
        symbols.store(s.macro->name);
        break;
      case StmtKind::kFilterBlock:
        loads(s.filter, symbols);
        break;
      default:
        break;
    }
  }

  void inner_scopes(Stmt& s, const Symbols& outer) {
    Symbols symbols;
    symbols.parent = &outer;
    switch (s.kind) {
      case StmtKind::kIf:
        for (auto& branch : s.branches)
          for (auto& inner : branch.body) inner_scopes(*inner, outer);
        for (auto& inner : s.else_body) inner_scopes(*inner, outer);
        break;
      case StmtKind::kFor: {
        symbols.param("loop");
        targets(s.targets[0], symbols, true);
        scope(s.body, symbols);
        Symbols other;
        other.parent = &outer;
        scope(s.for_else, other);
        break;
      }
      case StmtKind::kWith:
        for (auto& target : s.targets) targets(target, symbols, true);
        scope(s.body, symbols);
        break;
      case StmtKind::kMacro:
      case StmtKind::kCallBlock: {
        for (auto& param : s.macro->params) symbols.param(param);
        for (auto& e : s.macro->defaults) loads(e, symbols);
        for (auto name : {"caller", "kwargs", "varargs"}) symbols.param(name);
        scope(s.macro->body, symbols);
        break;
      }
      case StmtKind::kFilterBlock:
      case StmtKind::kSetBlock:
      case StmtKind::kGeneration:
        scope(s.body, symbols);
        break;
      default:
        break;
    }
  }
};

/// Looks for loops over content; names that stand for content are collected on the way.
class ContentLoops {
 public:
  bool in(const Body& body) {
    for (auto& s : body)
      if (in(*s)) return true;
    return false;
  }

 private:
  bool is_content(const Expr& e) const {
    switch (e.kind) {
      case ExprKind::kName:
        return names_.count(e.name) > 0;
      case ExprKind::kGetAttr:
        return e.name == "content";
      case ExprKind::kGetItem: {
        auto key = e.children[1]->constant.str();
        return e.children[1]->kind == ExprKind::kConst && key && key->text.bytes == "content";
      }
      case ExprKind::kFilter:
      case ExprKind::kSlice:
        return e.children[0] && is_content(*e.children[0]);
      default:
        return false;
    }
  }

  bool in(const Stmt& s) {
    if (s.kind == StmtKind::kFor && is_content(*s.exprs[0])) return true;
    if (s.kind == StmtKind::kSet && s.targets[0]->kind == ExprKind::kName &&
        is_content(*s.exprs[0])) {
      names_.insert(s.targets[0]->name);
    }
    for (auto& branch : s.branches)
      if (in(branch.body)) return true;
    return in(s.else_body) || in(s.body.statements) || in(s.for_else.statements) ||
           (s.macro && in(s.macro->body.statements));
  }

  Names names_ = {"content"};
};

}  // namespace

bool walks_content(const ScopedBody& root) { return ContentLoops().in(root.statements); }

void track_identifiers(ScopedBody& root) {
  Symbols symbols;
  Tracker().scope(root, symbols);
}

}  // namespace munia::text::tmpl
