// Small checks that a user can run anywhere (munia doctor): every rung of the kernels against the
// one that says which bytes it must give, and a tokenizer round trip.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "text/tokenizer.h"

namespace munia::cli {

struct KernelCheck {
  std::string rung;
  std::vector<std::string> failed;  // weight types whose products differ; empty: all equal
  int n_types = 0;
  int n_own_order = 0;  // of these: types that the rung adds in its own order, not as scalar does
};
/// One seeded matrix of each weight type times a few rows, on every rung of this machine.
std::vector<KernelCheck> check_kernels();

/// An empty string when all texts come back whole, else a sentence with the first that does not.
std::string check_tokenizer(const text::Tokenizer& tokenizer);

}  // namespace munia::cli
