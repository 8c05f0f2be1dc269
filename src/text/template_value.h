// Values of the chat-template engine, with Python's meaning: what a Jinja expression can yield.
// Strings carry, byte by byte, who wrote them (marked_text.h). Lists and dicts never change once
// built (the reference environment is the immutable sandbox); only a namespace does. Lists and
// dicts know their nesting depth, so that no chain of destructors can be deep.
// Private to the template engine: nothing outside src/text includes this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "text/marked_text.h"

namespace munia::text::tmpl {

// Python's integers have no limit; 128 bits hold every integer of JSON and their products. What
// does not fit is an error.
__extension__ typedef __int128 Int;

struct Position {
  std::uint32_t line = 1;    // from 1
  std::uint32_t column = 1;  // from 1, in code points
};

/// Thrown inside the engine, caught at its edge (chat_template.cpp): never leaves the room.
struct Failure {
  Error error;
};
/// "line L, column C: message".
[[noreturn]] void fail_at(Position at, ErrorCode code, const std::string& message);

struct Str {
  MarkedText text;
  bool markup = false;  // made by `safe` or `escape`: `+` escapes what is joined to it
};
using StrPtr = std::shared_ptr<const Str>;

struct Missing {};  // a name that its scope declares but has not set yet
struct None {};
struct Undefined {
  std::string message;  // what the error says if it is used
};
struct Seq;
struct Dict;
struct Namespace;
struct LoopState;
struct Callable;
struct Iterator;
using UndefinedPtr = std::shared_ptr<const Undefined>;
using SeqPtr = std::shared_ptr<const Seq>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using LoopPtr = std::shared_ptr<LoopState>;
using CallablePtr = std::shared_ptr<const Callable>;
using IteratorPtr = std::shared_ptr<Iterator>;

class Value {
 public:
  Value() : v_(None{}) {}
  Value(Missing m) : v_(m) {}                  // NOLINT: implicit, here and below
  Value(bool b) : v_(b) {}                     // NOLINT
  Value(Int i) : v_(i) {}                      // NOLINT
  Value(double d) : v_(d) {}                   // NOLINT
  Value(StrPtr s) : v_(std::move(s)) {}        // NOLINT
  Value(UndefinedPtr u) : v_(std::move(u)) {}  // NOLINT
  Value(SeqPtr s) : v_(std::move(s)) {}        // NOLINT
  Value(DictPtr d) : v_(std::move(d)) {}       // NOLINT
  Value(NamespacePtr n) : v_(std::move(n)) {}  // NOLINT
  Value(LoopPtr l) : v_(std::move(l)) {}       // NOLINT
  Value(CallablePtr c) : v_(std::move(c)) {}   // NOLINT
  Value(IteratorPtr i) : v_(std::move(i)) {}   // NOLINT
  static Value from_size(std::size_t n) { return Value(static_cast<Int>(n)); }

  template <class T>
  const T* get() const {
    return std::get_if<T>(&v_);
  }
  bool is_missing() const { return std::holds_alternative<Missing>(v_); }
  bool is_none() const { return std::holds_alternative<None>(v_); }
  bool is_undefined() const { return std::holds_alternative<UndefinedPtr>(v_); }
  bool is_bool() const { return std::holds_alternative<bool>(v_); }
  bool is_int() const { return std::holds_alternative<Int>(v_); }
  bool is_float() const { return std::holds_alternative<double>(v_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  const Str* str() const {
    auto p = get<StrPtr>();
    return p ? p->get() : nullptr;
  }
  const Seq* seq() const {
    auto p = get<SeqPtr>();
    return p ? p->get() : nullptr;
  }
  const Dict* dict() const {
    auto p = get<DictPtr>();
    return p ? p->get() : nullptr;
  }
  /// A bool or an int as an integer; nothing else.
  bool as_int(Int& out) const {
    if (auto b = get<bool>()) return out = *b ? 1 : 0, true;
    if (auto i = get<Int>()) return out = *i, true;
    return false;
  }

 private:
  std::variant<None, Missing, bool, Int, double, StrPtr, UndefinedPtr, SeqPtr, DictPtr,
               NamespacePtr, LoopPtr, CallablePtr, IteratorPtr>
      v_;
};

struct Seq {
  enum Flavor { kList, kTuple, kRange, kItems, kKeys, kValues };
  Flavor flavor = kList;
  std::vector<Value> items;
  std::uint32_t depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;                 // in order of insertion
  std::unordered_map<std::string_view, std::uint32_t> index;  // string keys, when many
  std::uint32_t depth = 1;

  /// The value of a key, by Python's equality (1 == True == 1.0), or nothing.
  /// `work` counts the comparisons made, for the caller's step limit.
  const Value* find(const Value& key, std::uint64_t& work) const;
  const Value* find(std::string_view key) const;
  /// Adds or replaces, keeping the first position. Only while building.
  void set(const Value& key, const Value& value, std::uint64_t& work);
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attrs;  // names are not text of the output
  const Value* find(std::string_view name) const {
    for (auto& [key, value] : attrs)
      if (key == name) return &value;
    return nullptr;
  }
};

/// What Python calls a generator: can be walked once, has no length and no text.
struct Iterator {
  std::vector<Value> items;
  std::size_t pos = 0;
};

inline constexpr std::uint32_t kMaxValueDepth = 128;  // lists in lists; JSON parsers stop at 32

Value make_str(MarkedText text, bool markup = false);
/// Text that the engine itself made (numbers, padding): counts as the user's, see chat_template.h.
Value make_engine_str(std::string_view text);
Value make_template_str(std::string_view text);
Value make_undefined(std::string message);
/// Fails (no position) with kLimit when nested too deep.
Value make_seq(Seq::Flavor flavor, std::vector<Value> items);
Value make_list(std::vector<Value> items);
Value make_tuple(std::vector<Value> items);
Value make_dict(Dict dict);
Value make_iterator(std::vector<Value> items);

/// "str", "int", "dict", …: Python's name of the type.
std::string_view type_name(const Value& value);
/// As jinja2's messages call it: "'dict object'", "None".
std::string object_name(const Value& value);
/// Python's ==. Adds the comparisons made to `work`, and raises when one call makes too many.
bool values_equal(const Value& a, const Value& b, std::uint64_t& work, int depth = 0);
bool is_hashable(const Value& value);

std::string format_int(Int value);
std::string format_float(double value);  // as Python's repr

/// Thrown by helpers that know no position; the evaluator adds it.
struct Unplaced {
  ErrorCode code;
  std::string message;
};
[[noreturn]] void raise(std::string message, ErrorCode code = ErrorCode::kInvalidArgument);

}  // namespace munia::text::tmpl
