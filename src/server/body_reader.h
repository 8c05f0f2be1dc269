// Reads the JSON object of a request's body: typed fields with limits. The first mistake is kept,
// later reads go on with nothing, so that a route reads all of its fields and asks error() once.
// null is the same as absent; keys that nobody reads are ignored.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/beam.h"
#include "decode/sampler.h"
#include "server/errors.h"

namespace munia::server {

class BodyReader {
 public:
  /// Strict JSON in UTF-8, at most 64 levels deep, an object at the top.
  explicit BodyReader(std::string_view body);

  bool ok() const { return !error_; }
  const std::optional<ApiError>& error() const { return error_; }
  /// Keeps the first mistake.
  void reject(std::string message, std::string param = "", std::string code = "");
  void reject(ApiError error);

  const boost::json::object& object() const { return object_; }
  /// The value, or nullptr where it is absent or null.
  const boost::json::value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  std::optional<std::string> string(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::optional<double> number(std::string_view key, double low, double high);
  /// A string or a list of strings; empty where absent.
  std::vector<std::string> strings(std::string_view key);
  /// A list of token ids from 0 to `n_vocab` - 1.
  std::optional<std::vector<std::int32_t>> ids(std::string_view key, std::int64_t n_vocab);
  /// As string() or strings(); the field must be there.
  std::string required_string(std::string_view key);

 private:
  boost::json::object object_;
  std::optional<ApiError> error_;
};

/// "stop": a string or a list of strings. Few and short: each is compared with every byte of a
/// reply, on the engine's thread, and each choice of a request has a copy.
std::vector<std::string> read_stops(BodyReader& body);

/// temperature, top_p, top_k, min_p, seed, repetition_penalty, presence_penalty, frequency_penalty:
/// those that are there replace `sampling`'s. A temperature without a seed draws one.
void read_sampling(BodyReader& body, decode::SamplingParams& sampling);

inline constexpr std::int64_t kMostBeams = 16;  // of one request: they take others' turns

/// num_beams, length_penalty, early_stopping; `n` texts are wanted. Refuses beams with a
/// temperature (so it comes behind read_sampling()) or with "stream": which beam is the best is
/// known at the end.
decode::BeamParams read_beams(BodyReader& body, const decode::SamplingParams& sampling,
                              std::int64_t n, bool stream);

}  // namespace munia::server
