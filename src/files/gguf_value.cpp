#include "files/gguf_value.h"

#include <limits>
#include <type_traits>
#include <utility>

namespace munia::files {
namespace {

constexpr std::uint64_t kMaxArrayValues = 1U << 24;  // all arrays of a file together
constexpr std::uint64_t kMaxStringBytes = 64U << 20;

// clang-format off
enum class ValueType : std::uint32_t {
  kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kFloat32, kBool, kString, kArray,
  kUint64, kInt64, kFloat64,
};
// clang-format on

/// Bytes that a value of this kind takes at least; 0 for an unknown kind.
std::uint64_t min_value_bytes(std::uint32_t type) {
  constexpr std::uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

class ValueReader {
 public:
  ValueReader(GgufCursor& in, std::uint64_t& n_array_values, GgufValue& out)
      : in_(in), n_array_values_(n_array_values), out_(out) {}

  Status read(std::uint32_t type) {
    return type == static_cast<std::uint32_t>(ValueType::kArray) ? read_array() : read_scalar(type);
  }

 private:
  template <class T>
  Result<std::int64_t> read_int() {
    MUNIA_ASSIGN_OR_RETURN(const T value, in_.read_number<T>());
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return in_.invalid(in_.where() + " holds " + std::to_string(value) +
                           ", above the largest integer allowed (2^63 - 1)");
      }
    }
    return static_cast<std::int64_t>(value);
  }

  Result<std::int64_t> read_int(std::uint32_t type) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::kUint8:
        return read_int<std::uint8_t>();
      case ValueType::kInt8:
        return read_int<std::int8_t>();
      case ValueType::kUint16:
        return read_int<std::uint16_t>();
      case ValueType::kInt16:
        return read_int<std::int16_t>();
      case ValueType::kUint32:
        return read_int<std::uint32_t>();
      case ValueType::kInt32:
        return read_int<std::int32_t>();
      case ValueType::kUint64:
        return read_int<std::uint64_t>();
      case ValueType::kInt64:
        return read_int<std::int64_t>();
      case ValueType::kBool:
        return read_bool();
      default:
        return unknown_type(type);
    }
  }

  Result<std::int64_t> read_bool() {
    MUNIA_ASSIGN_OR_RETURN(const auto value, in_.read_number<std::uint8_t>());
    if (value > 1) {
      return in_.invalid(in_.where() + " holds " + std::to_string(value) +
                         " as a truth value, which must be 0 or 1");
    }
    return value;
  }

  Error unknown_type(std::uint32_t type) const {
    return in_.invalid(in_.where() + " has the unknown value type " + std::to_string(type) +
                       " before byte " + std::to_string(in_.pos()) + "; types 0 to 12 are known");
  }

  Result<double> read_float(std::uint32_t type) {
    if (type == static_cast<std::uint32_t>(ValueType::kFloat64)) return in_.read_number<double>();
    MUNIA_ASSIGN_OR_RETURN(const auto value, in_.read_number<float>());
    return static_cast<double>(value);
  }

  Status read_scalar(std::uint32_t type) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::kFloat32:
      case ValueType::kFloat64: {
        MUNIA_ASSIGN_OR_RETURN(const double value, read_float(type));
        out_ = value;
        return {};
      }
      case ValueType::kBool: {
        MUNIA_ASSIGN_OR_RETURN(const auto value, read_bool());
        out_ = value == 1;
        return {};
      }
      case ValueType::kString: {
        MUNIA_ASSIGN_OR_RETURN(const auto text, in_.read_string(kMaxStringBytes));
        out_.emplace<std::string>(text);
        return {};
      }
      default: {
        MUNIA_ASSIGN_OR_RETURN(const auto value, read_int(type));
        out_ = value;
        return {};
      }
    }
  }

  Status read_array() {
    MUNIA_ASSIGN_OR_RETURN(const auto type, in_.read_number<std::uint32_t>());
    MUNIA_ASSIGN_OR_RETURN(const auto count, in_.read_number<std::uint64_t>());
    if (type == static_cast<std::uint32_t>(ValueType::kArray)) {
      return in_.unsupported(in_.where() + " is an array of arrays, which munia does not read");
    }
    const std::uint64_t value_bytes = min_value_bytes(type);
    if (value_bytes == 0) return unknown_type(type);
    if (count > kMaxArrayValues - n_array_values_) {
      return in_.over_limit(in_.where() + " claims " + std::to_string(count) +
                            " array values; all arrays together may have " +
                            std::to_string(kMaxArrayValues));
    }
    if (count * value_bytes > in_.remaining()) return in_.cut_off(in_.pos() + count * value_bytes);
    n_array_values_ += count;
    // From here on `count` is below what the file holds, so it may be allocated.
    switch (static_cast<ValueType>(type)) {
      case ValueType::kString: {
        std::vector<std::string> values;
        values.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i) {
          MUNIA_ASSIGN_OR_RETURN(const auto text, in_.read_string(kMaxStringBytes));
          values.emplace_back(text);
        }
        out_ = std::move(values);
        return {};
      }
      case ValueType::kFloat32:
      case ValueType::kFloat64: {
        std::vector<double> values(count);
        for (double& value : values) {
          MUNIA_ASSIGN_OR_RETURN(value, read_float(type));
        }
        out_ = std::move(values);
        return {};
      }
      default: {
        std::vector<std::int64_t> values(count);
        for (std::int64_t& value : values) {
          MUNIA_ASSIGN_OR_RETURN(value, read_int(type));
        }
        out_ = std::move(values);
        return {};
      }
    }
  }

  GgufCursor& in_;
  std::uint64_t& n_array_values_;
  GgufValue& out_;
};

}  // namespace

Status read_gguf_value(GgufCursor& in, std::uint32_t type, std::uint64_t& n_array_values,
                       GgufValue& out) {
  return ValueReader(in, n_array_values, out).read(type);
}

}  // namespace munia::files
