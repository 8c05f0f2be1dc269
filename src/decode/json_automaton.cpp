// A JSON object, byte by byte. The containers that are open are bits of the state's stack word, all
// else is packed into its place word (Place below).
#include "decode/automaton.h"

namespace munia::decode {
namespace {

constexpr std::uint8_t kMaxDepth = 32;

enum class Mode : std::uint8_t {
  kStart,       // the opening brace
  kFirstKey,    // behind '{': a key or '}'
  kNextKey,     // behind a comma in an object: a key
  kColon,       // behind a key
  kValue,       // behind a colon, or a comma in an array
  kFirstValue,  // behind '[': a value or ']'
  kAfterValue,  // a comma or the end of the container
  kString,      // in a string
  kEscape,      // behind a backslash
  kHex,         // in \uXXXX; `sub` digits are read
  kHexBehindD,  // the digit behind \uD: not that of a surrogate
  kUtf8,        // in a character; `sub` continuation bytes are missing
  kUtf8BehindE0,
  kUtf8BehindEd,
  kUtf8BehindF0,
  kUtf8BehindF4,  // its second byte is bounded
  kLiteral,       // in true, false, null; `sub` counts through kLiterals
  kMinus,
  kZero,
  kDigits,
  kPoint,
  kFraction,
  kE,
  kESign,
  kExponent,  // in a number
  kEnd,
};

constexpr char kLiterals[] = "true\0false\0null";

struct Place {
  Mode mode = Mode::kStart;
  std::uint8_t sub = 0;
  std::uint8_t depth = 0;
  bool in_key = false;  // the string is a key
  bool spaced = false;  // the one space has been written
};

std::uint64_t pack(const Place& p) {
  return static_cast<std::uint64_t>(p.mode) | static_cast<std::uint64_t>(p.sub) << 8 |
         static_cast<std::uint64_t>(p.depth) << 16 | std::uint64_t{p.in_key} << 24 |
         std::uint64_t{p.spaced} << 25;
}

Place unpack(std::uint64_t word) {
  return {static_cast<Mode>(word & 0xFF), static_cast<std::uint8_t>(word >> 8),
          static_cast<std::uint8_t>(word >> 16), (word >> 24 & 1) != 0, (word >> 25 & 1) != 0};
}

bool is_digit(std::uint8_t c) { return c >= '0' && c <= '9'; }
bool is_hex(std::uint8_t c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_within(std::uint8_t c, int low, int high) { return c >= low && c <= high; }

class JsonReader {
 public:
  JsonReader(const AutomatonState& state) : p_(unpack(state.place)), stack_(state.stack) {}
  AutomatonState state() const { return {pack(p_), stack_}; }

  bool read(std::uint8_t c) {
    switch (p_.mode) {
      case Mode::kStart:
        return c == '{' && open(true);
      case Mode::kFirstKey:
        return c == '}' ? close(true) : key(c);
      case Mode::kNextKey:
        return space(c) || key(c);
      case Mode::kColon:
        return c == ':' && go(Mode::kValue);
      case Mode::kValue:
        return space(c) || value(c);
      case Mode::kFirstValue:
        return c == ']' ? close(false) : value(c);
      case Mode::kAfterValue:
        return after_value(c);
      case Mode::kString:
        return in_string(c);
      case Mode::kEscape:
        if (c == 'u') return go(Mode::kHex);
        return (c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' ||
                c == 't') &&
               go(Mode::kString);
      case Mode::kHex:
        return hex(c);
      case Mode::kHexBehindD:
        return is_within(c, '0', '7') && go(Mode::kHex, 2);
      case Mode::kUtf8:
        return continuation(c, 0x80, 0xBF);
      case Mode::kUtf8BehindE0:
        return continuation(c, 0xA0, 0xBF);
      case Mode::kUtf8BehindEd:
        return continuation(c, 0x80, 0x9F);
      case Mode::kUtf8BehindF0:
        return continuation(c, 0x90, 0xBF);
      case Mode::kUtf8BehindF4:
        return continuation(c, 0x80, 0x8F);
      case Mode::kLiteral:
        return literal(c);
      case Mode::kEnd:
        return false;
      default:
        return number(c);
    }
  }

 private:
  bool go(Mode mode, std::uint8_t sub = 0) {
    p_.mode = mode;
    p_.sub = sub;
    p_.spaced = false;
    return true;
  }

  bool space(std::uint8_t c) {
    if (c != ' ' || p_.spaced) return false;
    p_.spaced = true;
    return true;
  }

  bool in_object() const { return (stack_ & 1) != 0; }

  bool open(bool object) {
    if (p_.depth == kMaxDepth) return false;
    ++p_.depth;
    stack_ = stack_ << 1 | std::uint64_t{object};
    return go(object ? Mode::kFirstKey : Mode::kFirstValue);
  }

  bool close(bool object) {
    if (in_object() != object) return false;
    --p_.depth;
    stack_ >>= 1;
    return go(p_.depth == 0 ? Mode::kEnd : Mode::kAfterValue);
  }

  bool key(std::uint8_t c) {
    p_.in_key = true;
    return c == '"' && go(Mode::kString);
  }

  bool value(std::uint8_t c) {
    p_.in_key = false;
    switch (c) {
      case '{':
        return open(true);
      case '[':
        return open(false);
      case '"':
        return go(Mode::kString);
      case 't':
        return go(Mode::kLiteral, 1);
      case 'f':
        return go(Mode::kLiteral, 6);
      case 'n':
        return go(Mode::kLiteral, 12);
      case '-':
        return go(Mode::kMinus);
      case '0':
        return go(Mode::kZero);
      default:
        return is_digit(c) && go(Mode::kDigits);
    }
  }

  bool after_value(std::uint8_t c) {
    if (c == ',') return go(in_object() ? Mode::kNextKey : Mode::kValue);
    if (c == '}') return close(true);
    return c == ']' && close(false);
  }

  bool in_string(std::uint8_t c) {
    if (c == '"') return go(p_.in_key ? Mode::kColon : Mode::kAfterValue);
    if (c == '\\') return go(Mode::kEscape);
    if (c < 0x20) return false;
    if (c < 0x80) return true;
    if (is_within(c, 0xC2, 0xDF)) return go(Mode::kUtf8, 1);
    if (c == 0xE0) return go(Mode::kUtf8BehindE0, 2);
    if (c == 0xED) return go(Mode::kUtf8BehindEd, 2);
    if (is_within(c, 0xE1, 0xEF)) return go(Mode::kUtf8, 2);
    if (c == 0xF0) return go(Mode::kUtf8BehindF0, 3);
    if (is_within(c, 0xF1, 0xF3)) return go(Mode::kUtf8, 3);
    return c == 0xF4 && go(Mode::kUtf8BehindF4, 3);
  }

  bool continuation(std::uint8_t c, int low, int high) {
    if (!is_within(c, low, high)) return false;
    return p_.sub == 1 ? go(Mode::kString) : go(Mode::kUtf8, static_cast<std::uint8_t>(p_.sub - 1));
  }

  bool hex(std::uint8_t c) {
    if (!is_hex(c)) return false;
    if (p_.sub == 0 && (c == 'd' || c == 'D')) return go(Mode::kHexBehindD);
    return p_.sub == 3 ? go(Mode::kString) : go(Mode::kHex, static_cast<std::uint8_t>(p_.sub + 1));
  }

  bool literal(std::uint8_t c) {
    if (c == 0 || static_cast<std::uint8_t>(kLiterals[p_.sub]) != c) return false;
    const auto next = static_cast<std::uint8_t>(p_.sub + 1);
    return kLiterals[next] == '\0' ? go(Mode::kAfterValue) : go(Mode::kLiteral, next);
  }

  bool number(std::uint8_t c) {
    switch (p_.mode) {
      case Mode::kMinus:
        return c == '0' ? go(Mode::kZero) : is_digit(c) && go(Mode::kDigits);
      case Mode::kZero:
      case Mode::kDigits:
        if (p_.mode == Mode::kDigits && is_digit(c)) return true;
        if (c == '.') return go(Mode::kPoint);
        break;
      case Mode::kPoint:
        return is_digit(c) && go(Mode::kFraction);
      case Mode::kFraction:
        if (is_digit(c)) return true;
        break;
      case Mode::kE:
        if (c == '+' || c == '-') return go(Mode::kESign);
        return is_digit(c) && go(Mode::kExponent);
      case Mode::kESign:
        return is_digit(c) && go(Mode::kExponent);
      default:  // kExponent
        return is_digit(c) || after_value(c);
    }
    return c == 'e' || c == 'E' ? go(Mode::kE) : after_value(c);
  }

  Place p_;
  std::uint64_t stack_;
};

class JsonObjectAutomaton : public Automaton {
 public:
  AutomatonState start() const override { return {pack(Place{}), 0}; }

  bool advance(AutomatonState& state, std::uint8_t byte) const override {
    JsonReader reader(state);
    if (!reader.read(byte)) return false;
    state = reader.state();
    return true;
  }

  bool accepts(const AutomatonState& state) const override {
    return unpack(state.place).mode == Mode::kEnd;
  }
};

}  // namespace

std::shared_ptr<const Automaton> json_object_automaton() {
  return std::make_shared<JsonObjectAutomaton>();
}

}  // namespace munia::decode
