// The load test of `bench --serve`: so many requests, so many at a time, texts of mixed lengths;
// then what users felt, in percentiles.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/load_client.h"

namespace munia::cli {

struct LoadPlan {
  LoadTarget target;
  std::vector<std::string> texts;  // request i sends text i % size; not empty
  std::int64_t n_requests = 100;
  std::int64_t concurrency = 12;
  /// First asks each text alone, then compares every answer under load with it.
  bool check = false;
};

struct Percentiles {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};
/// By the nearest rank; zeros for no values.
Percentiles percentiles(std::vector<double> values);

struct LoadResult {
  std::vector<LoadReply> replies;      // in the order of the requests
  double seconds = 0;                  // of the whole test
  std::int64_t n_differ = 0;           // answers that differ from the one served alone (check)
  double alone_tokens_per_second = 0;  // of one user at a time (check)

  std::int64_t n_good() const;
  std::int64_t n_tokens() const;                       // of good replies
  std::vector<double> first_ms() const;                // of good replies that streamed
  std::vector<double> total_ms() const;                // of good replies
  std::map<std::string, std::int64_t> errors() const;  // how often each
};

/// Runs the plan with a thread for each user.
LoadResult run_load_test(const LoadPlan& plan);

/// Short, middle and long texts in turn, each another.
std::vector<std::string> mixed_texts(std::int64_t n);

}  // namespace munia::cli
