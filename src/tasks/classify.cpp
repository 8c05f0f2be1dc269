#include "tasks/classify.h"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <deque>
#include <mutex>

#include "base/utf8.h"
#include "engine/check_job.h"
#include "tasks/prompts.h"

namespace munia::tasks {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxLabelTokens = 3;  // of method generate, as in the articles
constexpr std::size_t kTextsInFlight = 64;

// The task's examples as turns before the text.
json::array example_turns(const Task& task) {
  json::array turns;
  for (const Example& example : task.examples) {
    turns.push_back(chat_message("user", fill_template(task.user_template, example.text)));
    turns.push_back(chat_message("assistant", task.labels[example.label].texts.front()));
  }
  return turns;
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
  MUNIA_RETURN_IF_ERROR(classifier.check_head());
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
  MUNIA_RETURN_IF_ERROR(classifier.compute_instruction());
  return classifier;
}

Status Classifier::check_head() const {
  if (task_.head == nullptr) return {};
  const model::ModelConfig& config = engine_->bundle().model->config();
  const LinearHead& head = *task_.head;
  if (head.hidden_dim == config.hidden_dim && head.layers.front() >= 0 &&
      head.layers.back() <= config.n_layers) {
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               "task \"" + task_.name + "\": its head was learned on another model: it reads " +
                   std::to_string(head.hidden_dim) + " numbers of layer " +
                   std::to_string(head.layers.back()) + ", and this model has " +
                   std::to_string(config.n_layers) + " layers of " +
                   std::to_string(config.hidden_dim) + "; learn it again with munia fit"};
}

// What prompts of different texts have in common is the instruction before the text, and the end of
// the turn behind it. Where no prompt can be made (each text will say so), nothing is pinned.
void Classifier::pin_instruction() {
  const Result<std::vector<std::int32_t>> first = prompt_ids("好");
  if (!first) return;
  std::size_t n_prefix = first->size();
  std::size_t n_suffix = first->size();
  for (const char* text : {"a", "1", "“"}) {
    const Result<std::vector<std::int32_t>> other = prompt_ids(text);
    if (!other) return;
    const auto n_common = static_cast<std::size_t>(engine::common_prefix(*first, *other));
    n_prefix = std::min(n_prefix, n_common);
    const auto ends = std::mismatch(first->rbegin(), first->rend(), other->rbegin(), other->rend());
    n_suffix = std::min(n_suffix, static_cast<std::size_t>(ends.first - first->rbegin()));
  }
  n_suffix_ = n_suffix;
  prefix_ = engine_->pin({first->begin(), first->begin() + static_cast<std::ptrdiff_t>(n_prefix)});
}

// Jobs of a head stop before the last block, so the instruction that they share would never get
// into the cache. Where memory is so short that it leaves again, each of them computes it.
Status Classifier::compute_instruction() {
  if (task_.head == nullptr || prefix_ == nullptr || prefix_->empty()) return {};
  engine::LogitsJob job;
  job.prompt = *prefix_;
  job.keep = false;  // it is pinned
  const Result<engine::LogitsResult> result = engine_->logits(std::move(job));
  return result ? Status() : result.error();
}

// The mean is over the text's own tokens, whatever the cache holds.
engine::Features Classifier::features(std::span<const std::int32_t> prompt,
                                      std::vector<std::int64_t> layers) const {
  engine::Features features;
  features.layers = std::move(layers);
  features.mean_end = static_cast<std::int64_t>(prompt.size());
  if (prefix_ == nullptr) return features;
  features.mean_begin = std::min(engine::common_prefix(*prefix_, prompt), features.mean_end - 1);
  const std::int64_t end = features.mean_end - static_cast<std::int64_t>(n_suffix_);
  if (end > features.mean_begin) features.mean_end = end;
  return features;
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
    if (task_.head != nullptr || !task_.calibration.is_plain() || !task_.examples.empty()) {
      return Error{ErrorCode::kUnsupported, "task \"" + task_.name +
                                                "\" was fitted to its own prompt; use --prompt "
                                                "separate"};
    }
    return bundle.render_ids(shared_context(task_, text));
  }
  const std::string user = fill_template(task_.user_template, text);
  if (task_.raw) return bundle.plain_ids(task_.system.value_or("") + user);
  return bundle.render_ids(chat_context(task_.system, user, example_turns(task_)));
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
  if (task_.method == Method::kHead) {
    job.features = features(job.prompt, task_.head->layers);
    return engine::Job(std::move(job));
  }
  add_continuations(job);
  return engine::Job(std::move(job));
}

void Classifier::add_continuations(engine::ScoreJob& job) const {
  for (const decode::LabelTokens& texts : label_tokens_) {
    job.continuations.insert(job.continuations.end(), texts.begin(), texts.end());
  }
}

Result<engine::ScoreJob> Classifier::features_job(std::string_view text,
                                                  std::vector<std::int64_t> layers) const {
  engine::ScoreJob job;
  MUNIA_ASSIGN_OR_RETURN(job.prompt, prompt_ids(text));
  job.keep = false;
  job.differences_only = true;
  job.features = features(job.prompt, std::move(layers));
  add_continuations(job);
  return job;
}

decode::LabelScores Classifier::label_scores(const engine::ScoreResult& scored) const {
  std::vector<std::vector<double>> text_logprobs;
  auto next = scored.logprobs.begin();
  for (const decode::LabelTokens& texts : label_tokens_) {
    const auto end = next + static_cast<std::ptrdiff_t>(texts.size());
    text_logprobs.emplace_back(next, end);
    next = end;
  }
  return decode::combine_texts(std::move(text_logprobs));
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
  const std::vector<double> scores = task_.method == Method::kHead
                                         ? task_.head->logistic.scores(scored.features)
                                         : label_scores(scored).label_logprobs;
  const std::vector<double> probabilities = task_.calibration.probabilities(scores);
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    out.probabilities.emplace_back(task_.labels[i].name, probabilities[i]);
  }
  // Scores tell apart what rounding makes equal in probabilities.
  const std::size_t best =
      task_.calibration.choose(task_.calibration.is_plain() ? scores : probabilities);
  out.label = task_.labels[best].name;
  out.emoji = task_.labels[best].emoji;
  out.confidence = probabilities[best];
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
    job.min_tokens = options.min_tokens;
    job.beams = options.beams;
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
  if (options.before_wait) options.before_wait(*emotion);
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
    if (options.before_wait) options.before_wait(*reply);
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
