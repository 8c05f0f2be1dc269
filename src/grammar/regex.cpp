// A recursive-descent parser that makes a tree, and the tree's parts of the grammar.
#include "grammar/regex.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"

namespace munia::grammar {
namespace {

constexpr int kMaxGroups = 64;  // inside each other

struct Expr {
  enum class Kind : std::uint8_t { kCharacter, kSequence, kAlternatives, kRepeat };
  Kind kind = Kind::kSequence;
  CodePoints set;           // of a character
  std::vector<Expr> parts;  // one of a repeat
  std::uint32_t least = 1, most = 1;
};

CodePoints digits() {
  CodePoints set;
  set.add('0', '9');
  return set;
}
CodePoints word_characters() {
  CodePoints set = digits();
  set.add('a', 'z');
  set.add('A', 'Z');
  set.add('_', '_');
  return set;
}
CodePoints spaces() {  // ECMA-262's white space and line ends
  CodePoints set;
  set.add(0x09, 0x0D);
  set.add(0x2000, 0x200A);
  for (const std::uint32_t c :
       {0x20U, 0xA0U, 0x1680U, 0x2028U, 0x2029U, 0x202FU, 0x205FU, 0x3000U, 0xFEFFU}) {
    set.add(c, c);
  }
  return set;
}
CodePoints line_ends() {  // what "." leaves out
  CodePoints set;
  for (const std::uint32_t c : {0x0AU, 0x0DU, 0x2028U, 0x2029U}) set.add(c, c);
  return set;
}

class Parser {
 public:
  explicit Parser(std::u32string_view text) : text_(text) {}

  Result<Expr> parse() {
    Expr expr = alternatives(0, true);
    if (!error_ && !at_end()) fail("there is a \")\" without its \"(\"");
    if (error_) return *error_;
    return expr;
  }

 private:
  bool at_end() const { return error_ || at_ >= text_.size(); }
  char32_t peek() const { return text_[at_]; }
  bool sees(char32_t c) const { return !at_end() && peek() == c; }
  bool take(char32_t c) {
    if (!sees(c)) return false;
    ++at_;
    return true;
  }

  void fail(const std::string& what, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (error_) return;
    error_ = Error{code, "at character " + std::to_string(std::min(at_ + 1, text_.size())) +
                             " of the regular expression: " + what};
  }
  void refuse(const std::string& what) {
    fail(what + " is not supported; write the expression without it", ErrorCode::kUnsupported);
  }

  // Anchors are allowed where the whole text begins or ends anyway.
  Expr alternatives(int depth, bool begins) {
    Expr expr;
    expr.kind = Expr::Kind::kAlternatives;
    ended_ = false;
    bool some_ended = false;
    do {
      expr.parts.push_back(sequence(depth, begins));
      some_ended = some_ended || std::exchange(ended_, false);
    } while (take('|'));
    ended_ = some_ended;
    if (expr.parts.size() == 1) return std::move(expr.parts.front());
    return expr;
  }

  Expr sequence(int depth, bool begins) {
    Expr expr;
    while (!at_end() && peek() != '|' && peek() != ')') {
      if (ended_) {
        fail("something stands behind \"$\", where the text has ended");
        break;
      }
      if (take('^')) {
        if (!begins) refuse("\"^\" that is not at the beginning");
      } else if (take('$')) {
        ended_ = true;
      } else {
        expr.parts.push_back(repeated(depth, begins));
        begins = false;
      }
    }
    return expr;
  }

  Expr repeated(int depth, bool begins) {
    Expr expr = atom(depth, begins);
    std::uint32_t least = 1, most = 1;
    if (!take_repeat(least, most)) return expr;
    if (ended_) fail("an expression with \"$\" is repeated");
    if (sees('?')) refuse("lazy repetition");
    if (sees('+')) refuse("possessive repetition");
    if (sees('*') || sees_braces()) fail("a repetition is repeated; put it into a group");
    Expr repeat;
    repeat.kind = Expr::Kind::kRepeat;
    repeat.least = least;
    repeat.most = most;
    repeat.parts.push_back(std::move(expr));
    return repeat;
  }

  bool take_repeat(std::uint32_t& least, std::uint32_t& most) {
    if (take('?')) {
      least = 0;
    } else if (take('*')) {
      least = 0;
      most = kNoLimit;
    } else if (take('+')) {
      most = kNoLimit;
    } else if (sees_braces()) {
      take('{');
      least = most = number();
      if (take(',')) most = sees('}') ? kNoLimit : number();
      if (!take('}')) fail("a repetition lacks its \"}\"");
      if (most < least) fail("a repetition has its limits the wrong way round");
    } else {
      return false;
    }
    return true;
  }

  bool sees_braces() const {
    return sees('{') && at_ + 1 < text_.size() && text_[at_ + 1] >= '0' && text_[at_ + 1] <= '9';
  }

  std::uint32_t number() {
    if (at_end() || peek() < '0' || peek() > '9') fail("a repetition needs a number");
    std::uint32_t value = 0;
    while (!at_end() && peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      ++at_;
      if (value > kMaxRepeats) {
        fail("a repetition is above " + std::to_string(kMaxRepeats), ErrorCode::kLimit);
      }
    }
    return value;
  }

  Expr atom(int depth, bool begins) {
    const char32_t c = peek();
    if (c == '(') return group(depth, begins);
    if (c == '[') return character(char_class());
    if (c == '*' || c == '+' || c == '?' || sees_braces()) {
      fail("a repetition has nothing before it");
      return {};
    }
    if (c == '.') {
      ++at_;
      return character(line_ends().complement());
    }
    if (c == '\\') return character(escape());
    ++at_;
    return character(CodePoints::one(c));
  }

  static Expr character(CodePoints set) {
    Expr expr;
    expr.kind = Expr::Kind::kCharacter;
    expr.set = std::move(set);
    return expr;
  }

  Expr group(int depth, bool begins) {
    ++at_;
    if (depth == kMaxGroups) {
      fail("more than " + std::to_string(kMaxGroups) + " groups stand inside each other",
           ErrorCode::kLimit);
      return {};
    }
    if (take('?') && !take(':')) {
      if (sees('=') || sees('!') || sees('<')) {
        refuse("look-around or a named group");
      } else {
        refuse("a group that begins with \"(?\", other than \"(?:\",");
      }
      return {};
    }
    Expr inside = alternatives(depth + 1, begins);
    if (!take(')')) fail("a \"(\" lacks its \")\"");
    return inside;
  }

  // Behind a backslash: a character, or a class of them.
  CodePoints escape() {
    ++at_;
    if (at_end()) {
      fail("a backslash stands at the end");
      return {};
    }
    const char32_t c = peek();
    switch (c) {
      case 'd':
        return step(digits());
      case 'D':
        return step(digits().complement());
      case 'w':
        return step(word_characters());
      case 'W':
        return step(word_characters().complement());
      case 's':
        return step(spaces());
      case 'S':
        return step(spaces().complement());
      case 't':
        return step(CodePoints::one('\t'));
      case 'n':
        return step(CodePoints::one('\n'));
      case 'r':
        return step(CodePoints::one('\r'));
      case 'f':
        return step(CodePoints::one('\f'));
      case 'v':
        return step(CodePoints::one('\v'));
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case '0':
        return step(CodePoints::one(0));
      default:
        break;
    }
    if (c >= '1' && c <= '9') {
      refuse("a back reference");
    } else if (c == 'b' || c == 'B' || c == 'k' || c == 'p' || c == 'P' || c == 'A' || c == 'Z') {
      refuse("\"\\" + std::string(1, static_cast<char>(c)) + "\"");
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      fail("\"\\" + std::string(1, static_cast<char>(c)) + "\" is not known");
    }
    return step(CodePoints::one(c));
  }

  CodePoints step(CodePoints set) {
    ++at_;
    return set;
  }

  CodePoints hex(int n_digits) {
    ++at_;
    std::uint32_t value = 0;
    for (int i = 0; i < n_digits; ++i, ++at_) {
      const char32_t c = at_end() ? U' ' : peek();
      const bool is_digit = c >= '0' && c <= '9';
      const bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_digit && !is_letter) {
        fail("\"\\x\" needs two hexadecimal digits, \"\\u\" four");
        return {};
      }
      value = value * 16 + static_cast<std::uint32_t>(is_digit ? c - '0' : (c | 0x20U) - 'a' + 10);
    }
    if (value >= 0xD800 && value <= 0xDFFF) {
      fail("a half of a surrogate pair is no character; write the character itself");
    }
    return CodePoints::one(value);
  }

  CodePoints char_class() {
    ++at_;
    const bool negated = take('^');
    CodePoints set;
    while (!at_end() && peek() != ']') {
      const CodePoints low = class_item();
      const bool is_range = sees('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        set.add(low);
        continue;
      }
      ++at_;
      const CodePoints high = class_item();
      if (error_) break;
      const auto single = [](const CodePoints& item) {
        return item.ranges().size() == 1 && item.ranges()[0].low == item.ranges()[0].high;
      };
      if (!single(low) || !single(high)) {
        fail("a range in a class has an end that is no single character");
        break;
      }
      if (low.ranges()[0].low > high.ranges()[0].low) {
        fail("a range in a class has its ends the wrong way round");
        break;
      }
      set.add(low.ranges()[0].low, high.ranges()[0].low);
    }
    if (!take(']')) fail("a \"[\" lacks its \"]\"");
    return negated ? set.complement() : set;
  }

  CodePoints class_item() {
    if (at_end()) return {};
    if (peek() != '\\') {
      return step(CodePoints::one(peek()));
    }
    if (at_ + 1 < text_.size() && text_[at_ + 1] == 'b') {  // in a class: the backspace
      ++at_;
      return step(CodePoints::one('\b'));
    }
    return escape();
  }

  std::u32string_view text_;
  std::size_t at_ = 0;
  bool ended_ = false;  // a "$" was the last thing
  std::optional<Error> error_;
};

class Layer {
 public:
  Layer(Builder& builder, Writing writing) : builder_(builder), writing_(writing) {}

  void lay(NodeId from, const Expr& expr, NodeId to) {
    if (builder_.is_full()) return;
    switch (expr.kind) {
      case Expr::Kind::kCharacter:
        return add_character(builder_, from, expr.set, writing_, to);
      case Expr::Kind::kSequence:
        return sequence(from, expr, to);
      case Expr::Kind::kAlternatives:
        for (const Expr& part : expr.parts) lay(from, part, to);
        return;
      case Expr::Kind::kRepeat:
        return repeat(from, expr, to);
    }
  }

 private:
  void sequence(NodeId from, const Expr& expr, NodeId to) {
    if (expr.parts.empty()) return builder_.jump(from, to);
    for (std::size_t i = 0; i < expr.parts.size(); ++i) {
      const NodeId next = i + 1 == expr.parts.size() ? to : builder_.node_beside(from);
      lay(from, expr.parts[i], next);
      from = next;
    }
  }

  void repeat(NodeId from, const Expr& expr, NodeId to) {
    const Expr& part = expr.parts.front();
    const std::uint32_t limit = expr.most == kNoLimit ? expr.least : expr.most;
    // An empty set has no end to count to.
    if (part.kind == Expr::Kind::kCharacter && !part.set.ranges().empty() &&
        limit >= kLeastCounted) {
      return counted(from, expr, to);
    }
    const auto step = [&] {
      const NodeId next = builder_.node_beside(from);
      lay(from, part, next);
      from = next;
    };
    for (std::uint32_t i = 0; i < expr.least && !builder_.is_full(); ++i) step();
    if (expr.most == kNoLimit) {
      const NodeId loop = builder_.node_beside(from);
      const NodeId again = builder_.node_beside(from);
      builder_.jump(from, loop);
      lay(loop, part, again);
      builder_.jump(again, loop);
      builder_.jump(loop, to);
      return;
    }
    for (std::uint32_t i = expr.least; i < expr.most && !builder_.is_full(); ++i) {
      builder_.jump(from, to);
      step();
    }
    builder_.jump(from, to);
  }

  // One character again and again, by the counter of a rule: far from its limits it is one state.
  void counted(NodeId from, const Expr& expr, NodeId to) {
    const RuleId id = builder_.add_rule(false, expr.least, expr.most);
    const Rule rule = builder_.rule(id);
    const NodeId inside = builder_.node_beside(rule.start);
    const NodeId character = builder_.node_beside(rule.start);
    const NodeId call = builder_.node_beside(from);
    builder_.jump(rule.start, inside);
    builder_.jump(inside, character, Jump::Test::kCountUp);
    add_character(builder_, character, expr.parts.front().set, writing_, inside);
    builder_.jump(inside, rule.end, Jump::Test::kEnough);
    builder_.jump(from, call);
    builder_.call(call, id, to);
  }

  // Repetitions that may be longer are counted; shorter ones are written out.
  static constexpr std::uint32_t kLeastCounted = 16;

  Builder& builder_;
  Writing writing_;
};

}  // namespace

Status add_regex(Builder& builder, NodeId from, std::string_view pattern, Writing writing,
                 NodeId to) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error{ErrorCode::kLimit, "the regular expression has " + std::to_string(pattern.size()) +
                                        " bytes; at most " + std::to_string(kMaxPatternBytes) +
                                        " are allowed"};
  }
  std::u32string text;
  for (std::size_t at = 0; at < pattern.size();) {
    const Utf8Char c = decode_utf8(pattern, at);
    if (!c.valid) {
      return Error{ErrorCode::kInvalidArgument, "the regular expression is not valid UTF-8"};
    }
    text += c.code_point;
    at += static_cast<std::size_t>(c.length);
  }
  MUNIA_ASSIGN_OR_RETURN(const Expr expr, Parser(text).parse());
  Layer(builder, writing).lay(from, expr, to);
  return {};
}

Result<GrammarPtr> regex_grammar(std::string_view pattern) {
  Builder builder;
  const Rule rule = builder.rule(builder.add_rule());
  MUNIA_RETURN_IF_ERROR(add_regex(builder, rule.start, pattern, Writing::kPlain, rule.end));
  auto grammar = std::move(builder).finish();
  if (!grammar) {
    return Error{grammar.error().code,
                 "the regular expression cannot be used: " + grammar.error().message};
  }
  return grammar;
}

}  // namespace munia::grammar
