// Lines of `generate`, `score` and `logits` as jobs: which keys there are, their types and ranges.
// A null value counts as absent. Failures have status 4 and begin with `where` ("line 3: ").
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "cli/exit_status.h"
#include "cli/lang.h"
#include "engine/engine.h"

namespace munia::cli {

/// Reads the fields of one line.
class Fields {
 public:
  Fields(const boost::json::object& object, std::string where, Lang lang)
      : object_(object), where_(std::move(where)), lang_(lang) {}

  const std::string& where() const { return where_; }
  Lang lang() const { return lang_; }
  /// nullptr when absent or null.
  const boost::json::value* find(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low,
                                      std::int64_t high) const;
  std::optional<float> number(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  /// A string or a list of strings.
  std::vector<std::string> strings(std::string_view key) const;
  /// Says once, on standard error, which key is not known.
  void note_unknown(std::initializer_list<std::string_view> known) const;
  [[noreturn]] void reject(const std::string& why) const;

 private:
  const boost::json::object& object_;
  std::string where_;
  Lang lang_;
};

/// Ids from a JSON array of integers.
std::vector<std::int32_t> ids_from_json(const boost::json::value& value, const Fields& fields,
                                        std::string_view key);
/// Ids of plain text as a prompt: begins with the bos token where the model's files ask for it.
std::vector<std::int32_t> text_prompt(const engine::ModelBundle& bundle, std::string_view text,
                                      bool parse_special, const std::string& where);
/// The prompt of a line: exactly one of `text_key`, "ids" and "messages".
std::vector<std::int32_t> prompt_from_json(const Fields& fields, std::string_view text_key,
                                           const engine::ModelBundle& bundle, bool parse_special);

struct GenerateRequest {
  engine::GenerateJob job;
  std::int64_t n = 1;
  bool seeded = false;  // false: a random seed is taken for sampling
};
inline constexpr std::int64_t kMaxChoices =
    32;  // times OrderedRun::kMaxPending: the engine's queue

/// `request` holds the command line's values; what the line says takes their place.
void read_generate_fields(const Fields& fields, GenerateRequest& request);
/// Fails with `status` when a parameter of sampling or beams is out of range; draws a seed when
/// none was given.
void settle_sampling(GenerateRequest& request, ExitStatus status, const std::string& where);

}  // namespace munia::cli
