// The public interface (include/munia) over engine and tasks: turns Results into exceptions and
// internal values into public ones. Knows no command line and no network.
#include "munia/model.h"

#include <boost/json.hpp>
#include <new>
#include <utility>

#include "base/cpu_topology.h"
#include "engine/engine.h"
#include "tasks/classify.h"

namespace munia {
namespace {

namespace json = boost::json;

[[noreturn]] void throw_request_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kCancelled:
      throw Cancelled(error.message);
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported:
    case ErrorCode::kLimit:
      throw RequestError(error.message);
    default:
      throw RuntimeFailure(error.message);
  }
}

template <class T>
T take(Result<T> result) {
  if (!result) throw_request_error(result.error());
  return *std::move(result);
}

decode::SamplingParams sampling_of(const GenerateOptions& options) {
  decode::SamplingParams sampling;
  sampling.temperature = options.temperature;
  sampling.top_k = options.top_k;
  sampling.top_p = options.top_p;
  sampling.min_p = options.min_p;
  sampling.seed = options.seed;
  sampling.repetition_penalty = options.repetition_penalty;
  sampling.presence_penalty = options.presence_penalty;
  sampling.frequency_penalty = options.frequency_penalty;
  sampling.logit_bias = options.logit_bias;
  return sampling;
}

decode::BeamParams beams_of(const GenerateOptions& options) {
  decode::BeamParams beams;
  beams.num_beams = options.num_beams;
  beams.n_returned = options.num_return_sequences;
  beams.length_penalty = options.length_penalty;
  switch (options.early_stopping) {
    case EarlyStopping::kFalse:
      beams.early_stopping = decode::EarlyStopping::kFalse;
      break;
    case EarlyStopping::kTrue:
      beams.early_stopping = decode::EarlyStopping::kTrue;
      break;
    case EarlyStopping::kNever:
      beams.early_stopping = decode::EarlyStopping::kNever;
      break;
  }
  return beams;
}

TokenUsage usage_of(const engine::Usage& usage) {
  return {usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens};
}

Labelled labelled_of(tasks::Classification&& result) {
  return {std::move(result.label), result.confidence, std::move(result.probabilities),
          usage_of(result.usage)};
}

json::object messages_context(const std::vector<Message>& messages, bool add_generation_prompt) {
  json::array list;
  for (const Message& message : messages) {
    list.push_back(json::object{{"role", message.role}, {"content", message.content}});
  }
  return json::object{{"messages", std::move(list)},
                      {"add_generation_prompt", add_generation_prompt}};
}

int thread_count(const LoadOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    throw ModelLoadError("threads " + std::to_string(options.threads) +
                         ": must be 0 (automatic) to 1024");
  }
  if (options.threads > 0) return options.threads;
  if (!options.cpus.empty()) return static_cast<int>(options.cpus.size());
  return detect_cpu_topology().n_threads;
}

}  // namespace

struct Generation::State {
  std::shared_ptr<engine::Ticket> ticket;
  bool waited = false;
};

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Generation::~Generation() {
  if (state_ == nullptr || state_->waited) return;
  state_->ticket->cancel();
  // The caller's on_text must not be called any more once this object is gone.
  static_cast<void>(state_->ticket->wait());
}

Generated Generation::wait() {
  if (state_->waited) throw RequestError("wait() was called before; a generation has one result");
  state_->waited = true;
  auto result = std::get<engine::GenerateResult>(take(state_->ticket->wait()));
  Generated out;
  out.usage = usage_of(result.usage);
  out.times = {result.timings.first_token_ms, result.timings.total_ms};
  if (result.score) {
    for (const engine::GenerateResult& other : result.others) {
      out.usage.completion_tokens += other.usage.completion_tokens;
    }
    for (engine::GenerateResult& text : engine::texts_of(result)) {
      out.beams.push_back(
          {std::move(text.ids), std::move(text.text), std::move(text.finish_reason), *text.score});
    }
  }
  out.ids = std::move(result.ids);
  out.text = std::move(result.text);
  out.finish_reason = std::move(result.finish_reason);
  return out;
}

void Generation::cancel() { state_->ticket->cancel(); }

struct Model::State {
  int n_threads = 0;
  std::shared_ptr<const engine::ModelBundle> bundle;
  std::unique_ptr<engine::Engine> engine;

  std::vector<Labelled> classify(const std::vector<std::string>& texts, tasks::Task task) const {
    const tasks::Classifier classifier = take(tasks::Classifier::create(*engine, std::move(task)));
    std::vector<Labelled> out;
    for (Result<tasks::Classification>& result : classifier.classify(texts)) {
      if (!result) {
        throw_request_error({result.error().code, "text " + std::to_string(out.size() + 1) + ": " +
                                                      result.error().message});
      }
      out.push_back(labelled_of(*std::move(result)));
    }
    return out;
  }
};

Model::Model(const std::string& path, const LoadOptions& options)
    : state_(std::make_unique<State>()) {
  try {
    state_->n_threads = thread_count(options);
    auto pool = std::make_unique<ThreadPool>(
        ThreadPool::Options{state_->n_threads, options.cpus, options.spin_us});
    engine::BundleOptions bundle_options;
    bundle_options.isa = options.isa;
    bundle_options.context = options.context;
    bundle_options.head = options.screen_head ? model::HeadMode::kAuto : model::HeadMode::kFull;
    if (!options.weights.empty()) {
      bundle_options.weights = model::weight_mode_named(options.weights);
      if (!bundle_options.weights) {
        throw ModelLoadError("there are no weights \"" + options.weights +
                             "\"; known are exact, int8 and int4");
      }
    }
    bundle_options.load = options.map_packed ? model::LoadWay::kMap : model::LoadWay::kCopy;
    bundle_options.verify = options.verify;
    state_->bundle = engine::load_bundle(path, bundle_options, *pool);
    engine::EngineOptions engine_options;
    engine_options.max_sequences = options.max_sequences;
    engine_options.prefill_chunk = options.prefill_chunk;
    engine_options.max_kv_bytes = options.max_kv_bytes;
    engine_options.kv_cache = options.kv_cache;
    engine_options.prefix_cache_bytes = options.prefix_cache_bytes;
    state_->engine =
        std::make_unique<engine::Engine>(state_->bundle, std::move(pool), engine_options);
  } catch (const LoadError& error) {
    throw ModelLoadError(error.what());
  } catch (const std::bad_alloc&) {
    throw ModelLoadError("not enough memory to load " + path);
  }
}

Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

ModelInfo Model::info() const {
  const model::Model& model = *state_->bundle->model;
  ModelInfo info;
  info.name = state_->bundle->name;
  info.architecture = model.config().architecture;
  info.weights = model.weights().types;
  info.isa = model.kernels().name;
  info.n_layers = model.config().n_layers;
  info.hidden_dim = model.config().hidden_dim;
  info.vocab_size = model.config().vocab_size;
  info.context = model.context();
  info.threads = state_->n_threads;
  info.weight_bytes = model.weights().size_bytes;
  info.load_seconds = state_->bundle->load_seconds;
  return info;
}

Ids Model::tokenize(std::string_view text, bool parse_special) const {
  const text::Tokenizer& tokenizer = *state_->bundle->tokenizer;
  return take(parse_special ? tokenizer.encode_with_special(text) : tokenizer.encode(text));
}

std::string Model::detokenize(std::span<const std::int32_t> ids, bool skip_special) const {
  return state_->bundle->tokenizer->decode(ids, skip_special);
}

Rendered Model::render(const std::vector<Message>& messages, bool add_generation_prompt) const {
  text::MarkedText marked =
      take(state_->bundle->render(messages_context(messages, add_generation_prompt)));
  Ids ids = take(state_->bundle->tokenizer->encode(marked));
  return {std::move(marked.bytes), std::move(ids)};
}

Generation Model::start(const Ids& prompt, const GenerateOptions& options,
                        const OnText& on_text) const {
  engine::GenerateJob job;
  job.prompt = prompt;
  job.max_tokens = options.max_tokens;
  job.sampling = sampling_of(options);
  job.stops = options.stop;
  job.min_tokens = options.min_tokens;
  job.beams = beams_of(options);
  job.on_text = on_text;
  auto generation = std::make_unique<Generation::State>();
  generation->ticket = take(state_->engine->submit(std::move(job)));
  return Generation(std::move(generation));
}

Generated Model::generate(const Ids& prompt, const GenerateOptions& options,
                          const OnText& on_text) const {
  return start(prompt, options, on_text).wait();
}

Generated Model::generate(std::string_view text, const GenerateOptions& options,
                          const OnText& on_text) const {
  return generate(take(state_->bundle->plain_ids(text)), options, on_text);
}

Generated Model::chat(const std::vector<Message>& messages, const GenerateOptions& options,
                      const OnText& on_text) const {
  return generate(take(state_->bundle->render_ids(messages_context(messages, true))), options,
                  on_text);
}

std::vector<double> Model::score(const Ids& prompt, const std::vector<Ids>& continuations) const {
  engine::ScoreJob job;
  job.prompt = prompt;
  job.continuations = continuations;
  return take(state_->engine->score(std::move(job))).logprobs;
}

std::vector<double> Model::score(std::string_view prompt,
                                 const std::vector<std::string>& continuations) const {
  std::vector<Ids> ids;
  for (const std::string& continuation : continuations) ids.push_back(tokenize(continuation));
  return score(take(state_->bundle->plain_ids(prompt)), ids);
}

std::vector<Labelled> Model::classify(const std::vector<std::string>& texts,
                                      const std::string& task) const {
  return state_->classify(texts, take(tasks::find_task(task)));
}

std::vector<Labelled> Model::classify(const std::vector<std::string>& texts,
                                      const std::vector<std::string>& labels,
                                      const std::optional<std::string>& system) const {
  return state_->classify(texts, take(tasks::task_from_labels(labels, system)));
}

Predicted Model::predict(std::string_view text, const std::string& task,
                         const GenerateOptions& options, const OnText& on_text) const {
  const tasks::Classifier classifier =
      take(tasks::Classifier::create(*state_->engine, take(tasks::find_task(task))));
  tasks::PredictOptions predict_options;
  predict_options.max_tokens = options.max_tokens;
  predict_options.sampling = sampling_of(options);
  predict_options.stops = options.stop;
  predict_options.min_tokens = options.min_tokens;
  predict_options.beams = beams_of(options);
  predict_options.beams.n_returned = 1;  // the reply is one text
  predict_options.on_text = on_text;
  tasks::Prediction result =
      take(tasks::predict(*state_->engine, classifier, text, predict_options));
  Predicted out;
  out.emoji = result.emotion.emoji;
  out.emotion = labelled_of(std::move(result.emotion));
  out.reply = std::move(result.reply).value_or("");
  out.finish_reason = std::move(result.finish_reason);
  out.usage = usage_of(result.usage);
  out.emotion_ms = result.emotion_ms;
  out.first_token_ms = result.first_token_ms;
  out.total_ms = result.total_ms;
  return out;
}

std::vector<float> Model::logits(const Ids& prompt) const {
  engine::LogitsJob job;
  job.prompt = prompt;
  std::vector<float> out;
  job.on_row = [&out](std::int64_t, std::span<const float> row) {
    out.assign(row.begin(), row.end());
  };
  take(state_->engine->logits(std::move(job)));
  return out;
}

}  // namespace munia
