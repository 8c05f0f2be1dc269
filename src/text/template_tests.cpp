// Jinja's tests: `value is name(arguments)`.
#include "text/template_eval.h"

namespace munia::text::tmpl {

namespace {

void no_args(Interp& in, Args& args) { in.bind(args, "the test", {}); }
const Value& one_arg(Interp& in, Args& args) { return *in.bind(args, "the test", {"other"}, 1)[0]; }

bool is_zero_mod(Interp& in, const Value& v, const Value& by, Int rest) {
  return in.equal(in.binary(Op::kMod, v, by), Value(rest));
}

bool t_defined(Interp& in, const Value& v, Args& a) { return no_args(in, a), !v.is_undefined(); }
bool t_undefined(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.is_undefined(); }
bool t_none(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.is_none(); }
bool t_boolean(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.is_bool(); }
bool t_true(Interp& in, const Value& v, Args& a) {
  return no_args(in, a), v.is_bool() && *v.get<bool>();
}
bool t_false(Interp& in, const Value& v, Args& a) {
  return no_args(in, a), v.is_bool() && !*v.get<bool>();
}
bool t_integer(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.is_int(); }
bool t_float(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.is_float(); }
bool t_number(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.is_number(); }
bool t_string(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.str() != nullptr; }
bool t_mapping(Interp& in, const Value& v, Args& a) { return no_args(in, a), v.dict() != nullptr; }
bool t_iterable(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  return v.str() || v.dict() || v.seq() || v.is_undefined() || v.get<IteratorPtr>() ||
         v.get<LoopPtr>();
}
bool t_sequence(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  // What has a length and items: not the views of a dict. Undefined fails on its __getitem__.
  return v.str() || v.dict() || (v.seq() && v.seq()->flavor <= Seq::kRange) || v.is_undefined();
}
bool t_callable(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  return v.get<CallablePtr>() || v.get<LoopPtr>() || v.is_undefined();
}
bool t_odd(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  return is_zero_mod(in, v, Value(Int{2}), 1);
}
bool t_even(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  return is_zero_mod(in, v, Value(Int{2}), 0);
}
bool t_divisibleby(Interp& in, const Value& v, Args& a) {
  return is_zero_mod(in, v, *in.bind(a, "divisibleby", {"num"}, 1)[0], 0);
}
bool t_upper(Interp& in, const Value& v, Args& a) {
  return no_args(in, a), is_cased(in.to_text(v).bytes, true);
}
bool t_lower(Interp& in, const Value& v, Args& a) {
  return no_args(in, a), is_cased(in.to_text(v).bytes, false);
}
bool t_escaped(Interp& in, const Value& v, Args& a) {
  return no_args(in, a), v.str() && v.str()->markup;
}
bool t_in(Interp& in, const Value& v, Args& a) { return in.contains(one_arg(in, a), v); }
bool t_eq(Interp& in, const Value& v, Args& a) { return in.equal(v, one_arg(in, a)); }
bool t_ne(Interp& in, const Value& v, Args& a) { return !in.equal(v, one_arg(in, a)); }
bool t_lt(Interp& in, const Value& v, Args& a) {
  int order = in.compare(v, one_arg(in, a));
  return order < 0;
}
bool t_le(Interp& in, const Value& v, Args& a) { return in.compare(v, one_arg(in, a)) <= 0; }
bool t_gt(Interp& in, const Value& v, Args& a) { return in.compare(v, one_arg(in, a)) == 1; }
bool t_ge(Interp& in, const Value& v, Args& a) {
  int order = in.compare(v, one_arg(in, a));
  return order == 0 || order == 1;
}
bool t_filter(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  return v.str() && find_filter(v.str()->text.bytes);
}
bool t_test(Interp& in, const Value& v, Args& a) {
  no_args(in, a);
  return v.str() && find_test(v.str()->text.bytes);
}
bool t_sameas(Interp& in, const Value& v, Args& a) {
  auto& other = one_arg(in, a);
  if (v.is_none() || v.is_bool()) return type_name(v) == type_name(other) && in.equal(v, other);
  if (other.is_none() || other.is_bool()) return false;
  raise("sameas compares only with true, false and none here", ErrorCode::kUnsupported);
}

constexpr std::pair<std::string_view, TestFn> kTests[] = {
    {"!=", t_ne},
    {"<", t_lt},
    {"<=", t_le},
    {"==", t_eq},
    {">", t_gt},
    {">=", t_ge},
    {"boolean", t_boolean},
    {"callable", t_callable},
    {"defined", t_defined},
    {"divisibleby", t_divisibleby},
    {"eq", t_eq},
    {"equalto", t_eq},
    {"escaped", t_escaped},
    {"even", t_even},
    {"false", t_false},
    {"filter", t_filter},
    {"float", t_float},
    {"ge", t_ge},
    {"greaterthan", t_gt},
    {"gt", t_gt},
    {"in", t_in},
    {"integer", t_integer},
    {"iterable", t_iterable},
    {"le", t_le},
    {"lessthan", t_lt},
    {"lower", t_lower},
    {"lt", t_lt},
    {"mapping", t_mapping},
    {"ne", t_ne},
    {"none", t_none},
    {"number", t_number},
    {"odd", t_odd},
    {"sameas", t_sameas},
    {"sequence", t_sequence},
    {"string", t_string},
    {"test", t_test},
    {"true", t_true},
    {"undefined", t_undefined},
    {"upper", t_upper},
};

}  // namespace

TestFn find_test(std::string_view name) {
  for (auto& [key, test] : kTests)
    if (key == name) return test;
  return nullptr;
}

}  // namespace munia::text::tmpl
