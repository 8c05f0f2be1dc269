#include "cli/request_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/json_value.h"
#include "cli/output.h"
#include "decode/random.h"
#include "grammar/choices.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace munia::cli {
namespace json = boost::json;

void Fields::reject(const std::string& why) const { fail(ExitStatus::kBadInput, where_ + why); }

const json::value* Fields::find(std::string_view key) const { return find_member(object_, key); }

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t low,
                                            std::int64_t high) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    reject(lang_.tr("{} must be an integer from {} to {}", "{} 应当是 {} 到 {} 的整数", quoted(key),
                    low, high));
  }
  return number;
}

std::optional<float> Fields::number(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  json::error_code error;
  const double number = value->to_number<double>(error);
  if (error || !(std::abs(number) <= 1e30)) {
    reject(lang_.tr("{} must be a number", "{} 应当是数", quoted(key)));
  }
  return static_cast<float>(number);
}

std::optional<std::string> Fields::string(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    reject(lang_.tr("{} must be a string", "{} 应当是字符串", quoted(key)));
  }
  return std::string(value->get_string());
}

std::vector<std::string> Fields::strings(std::string_view key) const {
  const json::value* value = find(key);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  if (value->is_string()) {
    out.emplace_back(value->get_string());
    return out;
  }
  const bool is_list =
      value->is_array() && std::all_of(value->get_array().begin(), value->get_array().end(),
                                       [](const json::value& item) { return item.is_string(); });
  if (!is_list) {
    reject(lang_.tr("{} must be a string or a list of strings", "{} 应当是字符串或字符串列表",
                    quoted(key)));
  }
  for (const json::value& item : value->get_array()) out.emplace_back(item.get_string());
  return out;
}

void Fields::note_unknown(std::initializer_list<std::string_view> known) const {
  for (const auto& entry : object_) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    print_note(where_ + lang_.tr("key {} is not known and does nothing", "未知的键 {}，已忽略",
                                 quoted(key)));
  }
}

std::vector<std::int32_t> ids_from_json(const json::value& value, const Fields& fields,
                                        std::string_view key) {
  std::vector<std::int32_t> ids;
  if (value.is_array()) {
    ids.reserve(value.get_array().size());
    for (const json::value& item : value.get_array()) {
      const std::optional<std::int64_t> id = whole_number(item);
      if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) break;
      ids.push_back(static_cast<std::int32_t>(*id));
    }
  }
  if (!value.is_array() || ids.size() != value.get_array().size()) {
    fields.reject(fields.lang().tr("{} must be a list of token ids (integers from 0)",
                                   "{} 应当是词元编号（非负整数）的列表", quoted(key)));
  }
  return ids;
}

std::vector<std::int32_t> text_prompt(const engine::ModelBundle& bundle, std::string_view text,
                                      bool parse_special, const std::string& where) {
  return value_or_fail(bundle.plain_ids(text, parse_special), where);
}

std::vector<std::int32_t> prompt_from_json(const Fields& fields, std::string_view text_key,
                                           const engine::ModelBundle& bundle, bool parse_special) {
  const json::value* text = fields.find(text_key);
  const json::value* ids = fields.find("ids");
  const json::value* messages = fields.find("messages");
  const Lang lang = fields.lang();
  if ((text != nullptr) + (ids != nullptr) + (messages != nullptr) != 1) {
    fields.reject(lang.tr("exactly one of {}, \"ids\" and \"messages\" is needed",
                          "{}、\"ids\"、\"messages\" 必须且只能给出一个", quoted(text_key)));
  }
  if (ids != nullptr) {
    std::vector<std::int32_t> prompt = ids_from_json(*ids, fields, "ids");
    if (prompt.empty()) fields.reject(lang.tr("\"ids\" is empty", "\"ids\" 为空"));
    return prompt;
  }
  if (text != nullptr) {
    const std::string content = *fields.string(text_key);
    if (content.empty()) {
      fields.reject(lang.tr("{} is empty", "{} 为空", quoted(text_key)));
    }
    return text_prompt(bundle, content, parse_special, fields.where());
  }
  json::object context;
  context["messages"] = *messages;
  context["add_generation_prompt"] = true;
  if (const json::value* tools = fields.find("tools")) context["tools"] = *tools;
  if (const json::value* variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object()) {
      fields.reject(lang.tr("\"chat_template_kwargs\" must be an object",
                            "\"chat_template_kwargs\" 应当是对象"));
    }
    for (const auto& entry : variables->get_object()) context[entry.key()] = entry.value();
  }
  return value_or_fail(bundle.render_ids(context), fields.where());
}

namespace {

void read_beam_fields(const Fields& fields, decode::BeamParams& beams) {
  if (const auto v = fields.integer("num_beams", 1, decode::kMaxBeams)) beams.num_beams = *v;
  if (const auto v = fields.number("length_penalty")) beams.length_penalty = *v;
  const json::value* early = fields.find("early_stopping");
  if (early == nullptr) return;
  if (early->is_bool()) {
    beams.early_stopping =
        early->get_bool() ? decode::EarlyStopping::kTrue : decode::EarlyStopping::kFalse;
  } else if (early->is_string() && early->get_string() == "never") {
    beams.early_stopping = decode::EarlyStopping::kNever;
  } else {
    fields.reject(fields.lang().tr("\"early_stopping\" must be true, false or \"never\"",
                                   "\"early_stopping\" 应当是 true、false 或 \"never\""));
  }
}

void read_constraint_fields(const Fields& fields, GenerateRequest& request) {
  const json::value* schema = fields.find("json_schema");
  const json::value* regex = fields.find("regex");
  const json::value* choice = fields.find("choice");
  const Lang lang = fields.lang();
  if ((schema != nullptr) + (regex != nullptr) + (choice != nullptr) > 1) {
    fields.reject(lang.tr("only one of \"json_schema\", \"regex\" and \"choice\" may be given",
                          "\"json_schema\"、\"regex\"、\"choice\" 只能给出一个"));
  }
  const auto set = [&](Result<grammar::GrammarPtr> made) {
    if (!made) fields.reject(made.error().message);
    request.job.constraint = *std::move(made);
  };
  if (schema != nullptr) {
    set(grammar::schema_grammar(*schema));
  } else if (regex != nullptr) {
    set(grammar::regex_grammar(*fields.string("regex")));
  } else if (choice != nullptr) {
    if (!choice->is_array()) {
      fields.reject(lang.tr("\"choice\" must be a list of strings", "\"choice\" 应当是字符串列表"));
    }
    set(grammar::choice_grammar(fields.strings("choice")));
  }
}

}  // namespace

void read_generate_fields(const Fields& fields, GenerateRequest& request) {
  constexpr std::int64_t kMany = 1 << 20;
  decode::SamplingParams& sampling = request.job.sampling;
  if (const auto v = fields.integer("max_tokens", 1, kMany)) request.job.max_tokens = *v;
  if (const auto v = fields.number("temperature")) sampling.temperature = *v;
  if (const auto v = fields.number("top_p")) sampling.top_p = *v;
  if (const auto v = fields.integer("top_k", 0, kMany)) sampling.top_k = *v;
  if (const auto v = fields.number("min_p")) sampling.min_p = *v;
  if (const auto v = fields.number("repetition_penalty")) sampling.repetition_penalty = *v;
  if (const auto v = fields.number("presence_penalty")) sampling.presence_penalty = *v;
  if (const auto v = fields.number("frequency_penalty")) sampling.frequency_penalty = *v;
  if (const auto v = fields.integer("seed", 0, std::numeric_limits<std::int64_t>::max())) {
    sampling.seed = static_cast<std::uint64_t>(*v);
    request.seeded = true;
  }
  if (fields.find("stop") != nullptr) request.job.stops = fields.strings("stop");
  if (const auto v = fields.integer("n", 1, kMaxChoices)) request.n = *v;
  if (const auto v = fields.integer("min_tokens", 0, kMany)) request.job.min_tokens = *v;
  read_beam_fields(fields, request.job.beams);
  read_constraint_fields(fields, request);
}

void settle_sampling(GenerateRequest& request, ExitStatus status, const std::string& where) {
  engine::GenerateJob& job = request.job;
  if (const Status valid = decode::validate(job.sampling); !valid) {
    fail(status, where + valid.error().message);
  }
  if (job.min_tokens > job.max_tokens) {
    fail(status, where + "min_tokens is " + std::to_string(job.min_tokens) +
                     "; it must be at most max_tokens, which is " + std::to_string(job.max_tokens));
  }
  if (job.beams.enabled()) job.beams.n_returned = request.n;
  if (const Status valid = decode::validate(job.beams, job.sampling); !valid) {
    fail(status, where + valid.error().message);
  }
  if (!request.seeded && request.job.sampling.temperature > 0) {
    request.job.sampling.seed = decode::random_seed();
  }
}

}  // namespace munia::cli
