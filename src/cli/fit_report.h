// What munia fit says: recipes side by side, and the record that a learned task file keeps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/context.h"
#include "tasks/evaluation.h"

namespace munia::cli {

/// One recipe, learned from some rows and judged on others.
struct FitTrial {
  std::string recipe;
  std::size_t n_learned = 0;  // rows
  std::string problem;        // why there are no figures; else empty
  std::vector<tasks::JudgedRow> judged;
  std::vector<tasks::JudgedRow> zero_shot;  // the same rows without learning
};

void print_trials_head(const Context& context);
void print_trial(const Context& context, const FitTrial& trial);

/// What the table [fit] of a task file says.
struct FitRecord {
  std::string file;
  std::string model;
  std::string recipe;
  std::size_t n_learned = 0;
  std::string judged_on;  // in words
  std::vector<FitTrial> trials;
};
std::string fit_record(const FitRecord& record);

}  // namespace munia::cli
