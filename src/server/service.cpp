#include "server/service.h"

#include <exception>
#include <new>
#include <utility>

#include "server/body_reader.h"

namespace munia::server {
namespace {

constexpr double kDaySeconds = 86400;
constexpr const char* kWarmUpText = "今天的实验终于成功了，太棒了！";

}  // namespace

std::optional<double> read_timeout(BodyReader& body) {
  return body.number("timeout", 0.001, kDaySeconds);
}

Service::Service(ServiceOptions options)
    : options_(std::move(options)), admission_(options_.admission) {}

void Service::warm_up(const LoadedModel& model) {
  // Both kinds of job that the articles' routes make: their code, buffers and pages are touched.
  if (const auto found = model.classifiers.find(options_.default_task.name);
      found != model.classifiers.end() && found->second) {
    (void)found->second->classify({kWarmUpText});
  }
  if (Result<std::vector<std::int32_t>> ids = model.bundle->plain_ids(kWarmUpText)) {
    engine::GenerateJob job;
    job.prompt = *std::move(ids);
    job.max_tokens = 2;
    (void)model.engine->generate(std::move(job));
  }
}

void Service::set_model(LoadedModel model) {
  for (const std::string& name : tasks::builtin_task_names()) {
    if (Result<tasks::Task> task = tasks::builtin_task(name)) {
      model.classifiers.emplace(name, tasks::Classifier::create(*model.engine, *std::move(task)));
    }
  }
  model.classifiers.erase(options_.default_task.name);
  model.classifiers.emplace(options_.default_task.name,
                            tasks::Classifier::create(*model.engine, options_.default_task));
  warm_up(model);
  model_ = std::make_unique<LoadedModel>(std::move(model));
  ready_ = true;
}

void Service::drain() {
  draining_ = true;
  admission_.drain();
}

const LoadedModel* Service::model_or_fail(const ExchangePtr& exchange) {
  const LoadedModel* loaded = model();
  if (loaded == nullptr) {
    exchange->fail(unavailable_error("the model is still loading; ask /ready"));
  }
  return loaded;
}

Metrics::Gauges Service::gauges() const {
  const Admission::State state = admission_.state();
  const LoadedModel* loaded = model();
  return {state.n_running,
          state.n_waiting,
          options_.admission.max_queue,
          ready(),
          state.mean_seconds,
          loaded == nullptr ? engine::EngineStats{} : loaded->engine->stats()};
}

void Service::run(const ExchangePtr& exchange, Priority priority,
                  std::optional<double> asked_seconds, std::function<Outcome(JobScope&)> work) {
  auto scope =
      std::make_shared<JobScope>(admission_.deadline(exchange->request().arrived, asked_seconds));
  exchange->on_client_gone([this, scope] {
    scope->stop(ErrorCode::kCancelled);
    admission_.wake();
  });
  const auto answer = [exchange](const ApiError& error) {
    if (error.status == kClientGone) {
      exchange->abandon();
    } else {
      exchange->fail(error);
    }
  };
  Work item;
  item.priority = priority;
  item.scope = scope;
  item.run = [this, exchange, scope, answer, work = std::move(work)] {
    metrics_.queue_time(seconds_since(exchange->request().arrived));
    Outcome outcome;
    if (scope->stopped()) {
      outcome = to_api_error(scope->reason());
    } else {
      outcome = guarded([&] { return work(*scope); });
    }
    if (outcome) answer(*outcome);
  };
  item.refuse = [this, answer](const ApiError& error) {
    metrics_.job_finished(error.status == kClientGone ? "cancelled" : "deadline");
    if (error.status != kClientGone) metrics_.rejected("deadline");
    answer(error);
  };
  if (const Outcome refused = admission_.submit(std::move(item))) {
    const bool late = refused->code == "deadline_exceeded";
    metrics_.rejected(refused->status == 429 ? "queue_full" : late ? "deadline" : "draining");
    exchange->fail(*refused);
  }
}

Outcome guarded(const std::function<Outcome()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return ApiError{503, "not enough memory for this request", "", "out_of_memory", {}};
  } catch (const std::exception& error) {
    return ApiError{500, std::string("internal error: ") + error.what(), "", "internal_error", {}};
  }
}

Error Service::told_reason(const Error& error, const JobScope& scope) {
  const bool ours = error.code == ErrorCode::kCancelled && scope.stopped();
  const Error told = ours ? scope.reason() : error;
  metrics_.job_finished(told.code == ErrorCode::kCancelled  ? "cancelled"
                        : told.code == ErrorCode::kDeadline ? "deadline"
                                                            : "error");
  return told;
}

std::function<void(std::string_view)> Service::timed(std::function<void(std::string_view)> on_text,
                                                     Clock::time_point arrived) {
  struct Last {
    bool any = false;
    Clock::time_point time;
  };
  // Called on the engine's thread only.
  return
      [this, arrived, on_text = std::move(on_text), last = Last{}](std::string_view piece) mutable {
        const Clock::time_point now = Clock::now();
        if (last.any) {
          metrics_.between_tokens(std::chrono::duration<double>(now - last.time).count());
        } else {
          metrics_.first_token(std::chrono::duration<double>(now - arrived).count());
        }
        last = {true, now};
        if (on_text) on_text(piece);
      };
}

void Service::note_job(const engine::Usage& usage, const engine::Timings& timings,
                       std::string_view finish_reason) {
  metrics_.tokens(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
  metrics_.prefill_time((timings.first_token_ms - timings.queue_ms) * 1e-3);
  if (usage.completion_tokens > 0) {
    metrics_.decode_time((timings.total_ms - timings.first_token_ms) * 1e-3);
  }
  metrics_.job_finished(finish_reason);
}

Result<engine::GenerateResult> Service::generate(Exchange& exchange, JobScope& scope,
                                                 engine::GenerateJob job) {
  job.on_text = timed(std::move(job.on_text), exchange.request().arrived);
  Result<std::shared_ptr<engine::Ticket>> ticket = model_->engine->submit(std::move(job));
  if (!ticket) return told_reason(ticket.error(), scope);
  scope.track(*ticket);
  Result<engine::JobResult> result = (*ticket)->wait();
  scope.forget(*ticket);
  if (!result) return told_reason(result.error(), scope);
  auto& generated = std::get<engine::GenerateResult>(*result);
  const engine::Usage& usage = generated.usage;
  note_job(usage, generated.timings, generated.finish_reason);
  exchange.note_usage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens,
                      generated.finish_reason);
  return std::move(generated);
}

Outcome Service::check_prompt(const LoadedModel& model, std::size_t n_prompt_tokens,
                              std::string param) {
  const auto context = static_cast<std::size_t>(model.bundle->model->context());
  if (n_prompt_tokens < context) return std::nullopt;
  return bad_request("the prompt has " + std::to_string(n_prompt_tokens) +
                         " tokens and needs room for one more; the context holds " +
                         std::to_string(context) + ": shorten the text",
                     std::move(param), "context_length_exceeded");
}

}  // namespace munia::server
