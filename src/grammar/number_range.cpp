#include "grammar/number_range.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "grammar/json_parts.h"

namespace munia::grammar {
namespace {

constexpr int kMaxBoundFraction = 15;
constexpr int kExactDigits = 15;  // of a decimal number that a double tells from its neighbours

/// Magnitudes whose whole part has `n_whole` digits. A place is how many digits are read, and
/// whether they are still those of the bounds.
class Magnitudes {
 public:
  Magnitudes(Builder& builder, const Bound& low, const std::optional<Bound>& high, NodeId to)
      : builder_(builder), low_(low), high_(high), to_(to) {}

  void add(NodeId from, int n_whole, int n_fraction) {
    const int n_low = static_cast<int>(low_.value.whole.size());
    if (n_whole < n_low) return;
    bool on_high = false;
    if (high_) {
      const int n_high = static_cast<int>(high_->value.whole.size());
      if (n_whole > n_high) return;
      on_high = n_whole == n_high;
    }
    n_whole_ = n_whole;
    n_digits_ = n_whole + n_fraction;
    nodes_.clear();
    read_digit(from, {0, n_whole == n_low, on_high});
  }

 private:
  struct Place {
    int n_read;
    bool on_low, on_high;
    auto operator<=>(const Place&) const = default;
  };

  int digit_of(const Decimal& bound, int index) const {
    const std::string& digits = index < n_whole_ ? bound.whole : bound.fraction;
    const auto at = static_cast<std::size_t>(index < n_whole_ ? index : index - n_whole_);
    return at < digits.size() ? digits[at] - '0' : 0;
  }
  bool rest_is_zero(const Decimal& bound, int index) const {
    const int n_bound = n_whole_ + static_cast<int>(bound.fraction.size());
    for (; index < n_bound; ++index) {
      if (digit_of(bound, index) != 0) return false;
    }
    return true;
  }

  void read_digit(NodeId from, const Place& place) {
    if (place.n_read == n_digits_) return;
    const bool leads = place.n_read == 0 && n_whole_ > 1;
    const int low = place.on_low ? digit_of(low_.value, place.n_read) : 0;
    const int high = place.on_high ? digit_of(high_->value, place.n_read) : 9;
    for (int first = std::max(low, leads ? 1 : 0); first <= high;) {
      const bool on_low = place.on_low && first == low;
      const bool on_high = place.on_high && first == high;
      int last = first;
      if (!on_low && !on_high) last = place.on_high ? high - 1 : high;
      builder_.edge(from, static_cast<std::uint8_t>('0' + first),
                    static_cast<std::uint8_t>('0' + last),
                    node_of({place.n_read + 1, on_low, on_high}));
      first = last + 1;
    }
  }

  NodeId node_of(const Place& place) {
    const auto found = nodes_.find(place);
    if (found != nodes_.end()) return found->second;
    const NodeId node = builder_.node_beside(to_);
    nodes_.emplace(place, node);
    if (place.n_read >= n_whole_ && fits(place)) builder_.jump(node, to_);
    if (place.n_read == n_whole_ && n_digits_ > n_whole_) {
      const NodeId point = builder_.node_beside(to_);
      builder_.edge(node, '.', '.', point);
      read_digit(point, place);
    } else {
      read_digit(node, place);
    }
    return node;
  }

  // Whether the number that ends here is within the bounds.
  bool fits(const Place& place) const {
    if (place.on_low && (low_.open || !rest_is_zero(low_.value, place.n_read))) return false;
    return !(place.on_high && high_->open && rest_is_zero(high_->value, place.n_read));
  }

  Builder& builder_;
  const Bound& low_;
  const std::optional<Bound>& high_;
  const NodeId to_;
  int n_whole_ = 0;
  int n_digits_ = 0;
  std::map<Place, NodeId> nodes_;
};

void add_magnitudes(Builder& builder, NodeId from, const Bound& low,
                    const std::optional<Bound>& high, int n_fraction, NodeId to) {
  int least_fraction = static_cast<int>(low.value.fraction.size());
  if (high) {
    least_fraction = std::max(least_fraction, static_cast<int>(high->value.fraction.size()));
  }
  for (int n_whole = 1; n_whole <= kMaxDigits; ++n_whole) {
    int n = std::max(std::min(n_fraction, kExactDigits - n_whole), least_fraction);
    if (n_fraction == 0) n = 0;
    Magnitudes(builder, low, high, to).add(from, n_whole, n);
  }
}

Decimal trimmed(std::string_view text) {
  Decimal out;
  if (text.starts_with('-')) {
    out.negative = true;
    text.remove_prefix(1);
  }
  const std::size_t point = text.find('.');
  out.whole = text.substr(0, point);
  if (point != std::string_view::npos) out.fraction = text.substr(point + 1);
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  if (out.is_zero()) out.negative = false;
  return out;
}

}  // namespace

std::optional<Decimal> decimal_of(double number) {
  if (!(std::abs(number) < 1e18)) return std::nullopt;
  std::array<char, 512> text{};
  const auto result =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (result.ec != std::errc()) return std::nullopt;
  Decimal out = trimmed({text.data(), static_cast<std::size_t>(result.ptr - text.data())});
  if (out.fraction.size() > kMaxBoundFraction) return std::nullopt;
  return out;
}

std::optional<Decimal> decimal_of(std::int64_t number) {
  Decimal out = trimmed(std::to_string(number));
  if (out.whole.size() > static_cast<std::size_t>(kMaxDigits)) return std::nullopt;
  return out;
}

void add_number_range(Builder& builder, NodeId from, const std::optional<Bound>& low,
                      const std::optional<Bound>& high, int n_fraction, NodeId to) {
  const Bound zero{};
  const bool low_is_negative = !low || low->value.negative;
  const bool high_is_negative = high && high->value.negative;
  if (!high_is_negative) {
    add_magnitudes(builder, from, low_is_negative ? zero : *low, high, n_fraction, to);
  }
  if (low_is_negative) {
    // The sizes of negative numbers, whose bounds change places; zero has no sign.
    const NodeId size = builder.node_beside(from);
    builder.edge(from, '-', '-', size);
    const Bound least = high_is_negative ? *high : Bound{{}, true};
    add_magnitudes(builder, size, least, low, n_fraction, to);
  }
}

}  // namespace munia::grammar
