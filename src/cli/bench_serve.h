// bench --serve URL: the load test as a command (load_run.h does the work).
#pragma once

#include <cstdint>
#include <string>

#include "cli/command_line.h"
#include "cli/context.h"

namespace munia::cli {

struct ServeBenchFlags {
  std::string url;  // empty: no load test
  std::string route = "predict";
  std::int64_t n_requests = 100;
  std::int64_t concurrency = 12;
  std::int64_t max_tokens = 64;
  float timeout = 60;
  std::string api_key;
  std::string texts;  // a file, one text a line
  bool check = false;
};

void describe_serve_bench(CommandSpec& spec, ServeBenchFlags& flags);
/// Status 1 when a request failed or an answer differed from the one served alone.
ExitStatus bench_serve(const Context& context, const ServeBenchFlags& flags,
                       const std::string& plot_path);

}  // namespace munia::cli
