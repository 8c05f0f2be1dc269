#include "tasks/classify.h"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <deque>
#include <mutex>

#include "base/utf8.h"
#include "engine/check_job.h"

namespace munia::tasks {
namespace {

namespace json = boost::json;

constexpr std::string_view kTextSlot = "{text}";
constexpr std::int64_t kMaxLabelTokens = 3;  // of method generate, as in the articles
constexpr std::size_t kTextsInFlight = 64;

std::string fill_template(const std::string& user_template, std::string_view text) {
  std::string filled;
  std::size_t begin = 0;
  while (true) {
    const std::size_t slot = user_template.find(kTextSlot, begin);
    filled += user_template.substr(begin, slot - begin);
    if (slot == std::string::npos) return filled;
    filled += text;
    begin = slot + kTextSlot.size();
  }
}

json::object chat_context(const std::optional<std::string>& system, const std::string& user) {
  json::array messages;
  if (system) messages.push_back(json::object{{"role", "system"}, {"content", *system}});
  messages.push_back(json::object{{"role", "user"}, {"content", user}});
  return json::object{{"messages", std::move(messages)},
                      {"add_generation_prompt", true},
                      {"enable_thinking", false}};
}

// The reply's prompt, with the question behind the text. It stands in the same message, since some
// templates refuse two messages of a user in a row.
json::object shared_context(const Task& task, std::string_view text) {
  return chat_context(task.reply_system, std::string(text) + "\n\n" + task.question);
}

Status check_text(std::string_view text) {
  if (const auto offset = find_invalid_utf8(text)) {
    return Error{ErrorCode::kInvalidData,
                 "the text is not UTF-8: the byte at offset " + std::to_string(*offset) +
                     " cannot stand there (for GB18030 text use --encoding gb18030)"};
  }
  if (is_blank(text)) {
    return Error{ErrorCode::kInvalidData, "the text is empty"};
  }
  return {};
}

// The label that the decoded text names first; of two at the same place the longer.
const Label* find_label(const Task& task, const std::string& raw) {
  const Label* best = nullptr;
  std::size_t best_at = std::string::npos;
  std::size_t best_size = 0;
  for (const Label& label : task.labels) {
    for (const std::string& text : label.texts) {
      const std::size_t at = raw.find(text);
      if (at == std::string::npos) continue;
      if (best == nullptr || at < best_at || (at == best_at && text.size() > best_size)) {
        best = &label;
        best_at = at;
        best_size = text.size();
      }
    }
  }
  return best;
}

}  // namespace

Result<Classifier> Classifier::create(engine::Engine& engine, Task task) {
  Classifier classifier(engine, std::move(task));
  const engine::ModelBundle& bundle = engine.bundle();
  if (!classifier.task_.raw && !bundle.chat_template) {
    return Error{ErrorCode::kUnsupported, "task \"" + classifier.task_.name +
                                              "\" needs a chat template and the model has none; "
                                              "use the task sentiment-raw"};
  }
  for (const Label& label : classifier.task_.labels) {
    decode::LabelTokens& tokens = classifier.label_tokens_.emplace_back();
    for (const std::string& text : label.texts) {
      MUNIA_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, bundle.tokenizer->encode(text));
      tokens.push_back(std::move(ids));
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  }
  if (decode::any_is_prefix(classifier.label_tokens_)) {
    std::vector<std::int32_t> end = bundle.turn_end;
    if (end.empty() && !bundle.eos_ids.empty()) end = {bundle.eos_ids.front()};
    for (const std::int32_t id : end) decode::append_token(classifier.label_tokens_, id);
  }
  // Built here only to refuse labels that cannot be told apart.
  if (const auto tree = decode::LabelTree::build(classifier.label_tokens_); !tree) {
    return Error{tree.error().code,
                 "task \"" + classifier.task_.name + "\": " + tree.error().message};
  }
  classifier.pin_instruction();
  return classifier;
}

// What prompts of different texts have in common is the instruction before the text. Where there is
// none, or no prompt can be made (each text will say so), nothing is pinned.
void Classifier::pin_instruction() {
  Result<std::vector<std::int32_t>> prefix = prompt_ids("好");
  for (const char* text : {"a", "1", "“"}) {
    const Result<std::vector<std::int32_t>> other = prompt_ids(text);
    if (!prefix || !other) return;
    prefix->resize(static_cast<std::size_t>(engine::common_prefix(*prefix, *other)));
  }
  prefix_ = engine_->pin(*std::move(prefix));
}

Result<std::vector<std::int32_t>> Classifier::prompt_ids(std::string_view text,
                                                         PromptForm form) const {
  MUNIA_RETURN_IF_ERROR(check_text(text));
  const engine::ModelBundle& bundle = engine_->bundle();
  if (form == PromptForm::kShared) {
    if (task_.raw || task_.question.empty()) {
      return Error{ErrorCode::kUnsupported, "task \"" + task_.name +
                                                "\" has no question for a shared prompt; "
                                                "use --prompt separate"};
    }
    return bundle.render_ids(shared_context(task_, text));
  }
  const std::string user = fill_template(task_.user_template, text);
  if (task_.raw) return bundle.plain_ids(task_.system.value_or("") + user);
  return bundle.render_ids(chat_context(task_.system, user));
}

Result<std::shared_ptr<engine::Ticket>> Classifier::submit(std::string_view text,
                                                           engine::Priority priority) const {
  MUNIA_ASSIGN_OR_RETURN(engine::Job job, this->job(text));
  std::visit([priority](auto& job_of_kind) { job_of_kind.priority = priority; }, job);
  return engine_->submit(std::move(job));
}

Status Classifier::check(std::string_view text) const {
  MUNIA_ASSIGN_OR_RETURN(const engine::Job job, this->job(text));
  return engine::check_job(job, engine_->bundle());
}

Result<engine::Job> Classifier::job(std::string_view text, PromptForm form) const {
  MUNIA_ASSIGN_OR_RETURN(std::vector<std::int32_t> prompt, prompt_ids(text, form));
  // A text that was labelled does not come again soon: bulk labelling must not push conversations
  // out of the cache. Behind a shared prompt the reply takes it.
  const bool keep = form == PromptForm::kShared;
  if (task_.method == Method::kGenerate) {
    engine::GenerateJob job;
    job.prompt = std::move(prompt);
    job.max_tokens = kMaxLabelTokens;
    job.keep = keep;
    return engine::Job(std::move(job));
  }
  engine::ScoreJob job;
  job.keep = keep;
  job.prompt = std::move(prompt);
  job.differences_only = true;  // finish() takes their softmax
  for (const decode::LabelTokens& texts : label_tokens_) {
    job.continuations.insert(job.continuations.end(), texts.begin(), texts.end());
  }
  return engine::Job(std::move(job));
}

Result<Classification> Classifier::finish(engine::Ticket& ticket) const {
  MUNIA_ASSIGN_OR_RETURN(engine::JobResult result, ticket.wait());
  Classification out;
  if (const auto* generated = std::get_if<engine::GenerateResult>(&result)) {
    out.raw = generated->text;
    out.usage = generated->usage;
    out.timings = generated->timings;
    if (const Label* label = find_label(task_, out.raw)) {
      out.label = label->name;
      out.emoji = label->emoji;
    }
    return out;
  }
  const auto& scored = std::get<engine::ScoreResult>(result);
  out.usage = scored.usage;
  out.timings = scored.timings;
  std::vector<std::vector<double>> text_logprobs;
  auto next = scored.logprobs.begin();
  for (const decode::LabelTokens& texts : label_tokens_) {
    const auto end = next + static_cast<std::ptrdiff_t>(texts.size());
    text_logprobs.emplace_back(next, end);
    next = end;
  }
  const decode::LabelScores scores = decode::combine_texts(std::move(text_logprobs));
  std::size_t best = 0;
  for (std::size_t i = 0; i < scores.label_logprobs.size(); ++i) {
    out.probabilities.emplace_back(task_.labels[i].name, scores.probabilities[i]);
    if (scores.label_logprobs[i] > scores.label_logprobs[best]) best = i;
  }
  out.label = task_.labels[best].name;
  out.emoji = task_.labels[best].emoji;
  out.confidence = out.probabilities[best].second;
  return out;
}

std::vector<Result<Classification>> Classifier::classify(
    const std::vector<std::string>& texts) const {
  std::vector<Result<Classification>> results;
  results.reserve(texts.size());
  std::deque<Result<std::shared_ptr<engine::Ticket>>> in_flight;
  const auto finish_first = [&] {
    const Result<std::shared_ptr<engine::Ticket>> first = std::move(in_flight.front());
    in_flight.pop_front();
    results.push_back(first ? finish(**first) : Result<Classification>(first.error()));
  };
  for (const std::string& text : texts) {
    if (in_flight.size() == kTextsInFlight) finish_first();
    in_flight.push_back(submit(text));
  }
  while (!in_flight.empty()) finish_first();
  return results;
}

namespace {

// Holds back the reply's pieces until the emotion has been told.
class ReplyGate {
 public:
  explicit ReplyGate(const std::function<void(std::string_view)>& on_text) : on_text_(on_text) {}
  void push(std::string_view piece) {
    const std::lock_guard lock(mutex_);
    if (open_) {
      on_text_(piece);
    } else {
      held_ += piece;
    }
  }
  void open() {
    const std::lock_guard lock(mutex_);
    if (!held_.empty()) on_text_(held_);
    held_.clear();
    open_ = true;
  }

 private:
  const std::function<void(std::string_view)>& on_text_;
  std::mutex mutex_;
  bool open_ = false;
  std::string held_;
};

}  // namespace

Result<Prediction> predict(engine::Engine& engine, const Classifier& classifier,
                           std::string_view text, const PredictOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto ms_since_begin = [begin] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  ReplyGate gate(options.on_text);
  std::vector<engine::Job> jobs;
  // The emotion comes first: behind a shared prompt the reply waits for the text that it computes.
  MUNIA_ASSIGN_OR_RETURN(engine::Job emotion_job, classifier.job(text, options.prompt));
  jobs.push_back(std::move(emotion_job));
  if (options.reply) {
    if (!engine.bundle().chat_template) {
      return Error{ErrorCode::kUnsupported,
                   "the model has no chat template, so it cannot reply; ask for the emotion alone"};
    }
    engine::GenerateJob job;
    MUNIA_ASSIGN_OR_RETURN(job.prompt, engine.bundle().render_ids(chat_context(
                                           classifier.task().reply_system, std::string(text))));
    job.max_tokens = options.max_tokens;
    job.sampling = options.sampling;
    job.stops = options.stops;
    if (options.on_text) {
      job.on_text = [&gate](std::string_view piece) { gate.push(piece); };
    }
    jobs.push_back(std::move(job));
  }
  // Both jobs come in at once, so that their prompts share the first steps.
  MUNIA_ASSIGN_OR_RETURN(const auto tickets, engine.submit_together(std::move(jobs)));
  for (const auto& ticket : tickets) {
    if (options.on_submit) options.on_submit(ticket);
  }
  const std::shared_ptr<engine::Ticket>& emotion = tickets.front();
  const std::shared_ptr<engine::Ticket> reply = options.reply ? tickets.back() : nullptr;
  Prediction out;
  Result<Classification> classification = classifier.finish(*emotion);
  if (!classification) {
    if (reply != nullptr) {
      reply->cancel();
      (void)reply->wait();  // the gate must outlive the job
    }
    return classification.error();
  }
  out.emotion = *std::move(classification);
  out.emotion_ms = ms_since_begin();
  out.usage = out.emotion.usage;
  if (options.on_emotion) options.on_emotion(out.emotion);
  if (reply != nullptr) {
    if (options.on_text) gate.open();
    MUNIA_ASSIGN_OR_RETURN(engine::JobResult result, reply->wait());
    auto& generated = std::get<engine::GenerateResult>(result);
    out.reply = std::move(generated.text);
    out.finish_reason = generated.finish_reason;
    out.first_token_ms = generated.timings.first_token_ms;
    out.usage += generated.usage;
  }
  out.total_ms = ms_since_begin();
  return out;
}

}  // namespace munia::tasks
