// Numbers between two bounds, as a grammar: digit by digit against the bounds' own digits.
#pragma once

#include <optional>
#include <string>

#include "grammar/grammar.h"

namespace munia::grammar {

/// A bound: sign and decimal digits without idle zeros ("0" before the point, "" behind it).
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};
/// Nothing where it has more than 18 digits before the point or 15 behind it.
std::optional<Decimal> decimal_of(double number);
std::optional<Decimal> decimal_of(std::int64_t number);

struct Bound {
  Decimal value;
  bool open = false;  // the bound itself is out
};

/// Numbers from `low` to `high` (nothing: unbounded) in plain notation, with up to `n_fraction`
/// digits behind a point; 0: integers.
void add_number_range(Builder& builder, NodeId from, const std::optional<Bound>& low,
                      const std::optional<Bound>& high, int n_fraction, NodeId to);

}  // namespace munia::grammar
