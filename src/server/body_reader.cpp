#include "server/body_reader.h"

#include <boost/json/parse.hpp>
#include <limits>
#include <utility>

#include "base/json_value.h"
#include "decode/random.h"

namespace munia::server {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;

std::string show(double number) {
  std::string text = std::to_string(number);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

BodyReader::BodyReader(std::string_view body) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::error_code error;
  json::value value =
      json::parse(json::string_view(body.data(), body.size()), error, json::storage_ptr(), options);
  if (error) {
    reject("the body is not JSON: " + error.message() +
               "; send one JSON object in UTF-8, at most " + std::to_string(kMaxDepth) +
               " levels deep",
           "", "invalid_json");
  } else if (!value.is_object()) {
    reject("the body must be a JSON object, such as {\"text\": \"…\"}", "", "invalid_json");
  } else {
    object_ = std::move(value.get_object());
  }
}

void BodyReader::reject(std::string message, std::string param, std::string code) {
  reject(bad_request(std::move(message), std::move(param), std::move(code)));
}

void BodyReader::reject(ApiError error) {
  if (!error_) error_ = std::move(error);
}

const json::value* BodyReader::find(std::string_view key) const {
  return find_member(object_, key);
}

std::optional<std::string> BodyReader::string(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    reject(quoted(key) + " must be a string", std::string(key));
    return std::nullopt;
  }
  return std::string(value->get_string());
}

std::string BodyReader::required_string(std::string_view key) {
  const std::optional<std::string> text = string(key);
  if (!text) reject(quoted(key) + " is missing", std::string(key));
  return text.value_or("");
}

std::optional<bool> BodyReader::boolean(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) {
    reject(quoted(key) + " must be true or false", std::string(key));
    return std::nullopt;
  }
  return value->get_bool();
}

std::optional<std::int64_t> BodyReader::integer(std::string_view key, std::int64_t low,
                                                std::int64_t high) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    reject(quoted(key) + " must be an integer from " + std::to_string(low) + " to " +
               std::to_string(high),
           std::string(key));
    return std::nullopt;
  }
  return number;
}

std::optional<double> BodyReader::number(std::string_view key, double low, double high) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  json::error_code error;
  const double number = value->to_number<double>(error);
  if (error || !(number >= low && number <= high)) {  // also false for NaN
    reject(quoted(key) + " must be a number from " + show(low) + " to " + show(high),
           std::string(key));
    return std::nullopt;
  }
  return number;
}

std::vector<std::string> BodyReader::strings(std::string_view key) {
  const json::value* value = find(key);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  if (value->is_string()) {
    out.emplace_back(value->get_string());
    return out;
  }
  bool good = value->is_array();
  if (good) {
    for (const json::value& item : value->get_array()) {
      if (!item.is_string()) {
        good = false;
        break;
      }
      out.emplace_back(item.get_string());
    }
  }
  if (!good) {
    reject(quoted(key) + " must be a string or a list of strings", std::string(key));
    out.clear();
  }
  return out;
}

std::optional<std::vector<std::int32_t>> BodyReader::ids(std::string_view key,
                                                         std::int64_t n_vocab) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int32_t> ids;
  bool good = value->is_array();
  if (good) {
    ids.reserve(value->get_array().size());
    for (const json::value& item : value->get_array()) {
      const std::optional<std::int64_t> id = whole_number(item);
      if (!id || *id < 0 || *id >= n_vocab) {
        good = false;
        break;
      }
      ids.push_back(static_cast<std::int32_t>(*id));
    }
  }
  if (!good) {
    reject(quoted(key) + " must be a list of token ids, integers from 0 to " +
               std::to_string(n_vocab - 1),
           std::string(key));
    return std::nullopt;
  }
  return ids;
}

std::vector<std::string> read_stops(BodyReader& body) {
  std::vector<std::string> stops = body.strings("stop");
  if (stops.size() > kMaxStops) {
    body.reject("\"stop\" has " + std::to_string(stops.size()) + " strings; at most " +
                    std::to_string(kMaxStops) + " are allowed",
                "stop");
  }
  for (const std::string& stop : stops) {
    if (stop.size() <= kMaxStopBytes) continue;
    body.reject("a string of \"stop\" has " + std::to_string(stop.size()) + " bytes; at most " +
                    std::to_string(kMaxStopBytes) + " are allowed",
                "stop");
  }
  return stops;
}

void read_sampling(BodyReader& body, decode::SamplingParams& sampling) {
  const auto set = [&body](const char* key, double low, double high, float& target) {
    if (const auto value = body.number(key, low, high)) target = static_cast<float>(*value);
  };
  set("temperature", 0, 100, sampling.temperature);
  set("top_p", 0, 1, sampling.top_p);
  set("min_p", 0, 1, sampling.min_p);
  set("repetition_penalty", 0.01, 10, sampling.repetition_penalty);
  set("presence_penalty", -2, 2, sampling.presence_penalty);
  set("frequency_penalty", -2, 2, sampling.frequency_penalty);
  // Clients write -1 for "off" and "any".
  if (const auto value = body.integer("top_k", -1, 1 << 20))
    sampling.top_k = *value < 0 ? 0 : *value;
  if (const auto value = body.integer("seed", -1, std::numeric_limits<std::int64_t>::max());
      value && *value >= 0) {
    sampling.seed = static_cast<std::uint64_t>(*value);
  } else if (sampling.temperature > 0) {
    sampling.seed = decode::random_seed();
  }
  if (const Status valid = decode::validate(sampling); body.ok() && !valid) {
    body.reject(valid.error().message);
  }
}

decode::BeamParams read_beams(BodyReader& body, const decode::SamplingParams& sampling,
                              std::int64_t n, bool stream) {
  decode::BeamParams beams;
  beams.num_beams = body.integer("num_beams", 1, kMostBeams).value_or(1);
  if (const auto value = body.number("length_penalty", -10, 10)) {
    beams.length_penalty = static_cast<float>(*value);
  }
  if (const json::value* value = body.find("early_stopping")) {
    if (value->is_bool()) {
      beams.early_stopping =
          value->get_bool() ? decode::EarlyStopping::kTrue : decode::EarlyStopping::kFalse;
    } else if (value->is_string() && value->get_string() == "never") {
      beams.early_stopping = decode::EarlyStopping::kNever;
    } else {
      body.reject("\"early_stopping\" must be true, false or \"never\"", "early_stopping");
    }
  }
  if (!beams.enabled()) return beams;
  beams.n_returned = n;
  if (stream) {
    body.reject("\"num_beams\" " + std::to_string(beams.num_beams) +
                    " cannot be streamed: the best text is known at the end; leave \"stream\" out "
                    "or use 1",
                "num_beams", "unsupported_parameter");
  }
  if (const Status valid = decode::validate(beams, sampling); body.ok() && !valid) {
    body.reject(valid.error().message, "num_beams");
  }
  return beams;
}

}  // namespace munia::server
