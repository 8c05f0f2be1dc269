// Minimum (a local one, where the function is not convex) of a smooth function of many variables:
// L-BFGS (J. Nocedal, 1980) with Armijo's rule for the length of a step. The same input gives the
// same bytes.
#pragma once

#include <functional>
#include <vector>

namespace munia::tasks {

/// The value at `point`; writes the gradient, of the same size.
using Objective =
    std::function<double(const std::vector<double>& point, std::vector<double>& gradient)>;

/// Moves `point` until no entry of the gradient exceeds `tolerance`, 200 steps were made, or
/// rounding allows no further decrease.
void minimize(const Objective& objective, std::vector<double>& point, double tolerance);

}  // namespace munia::tasks
