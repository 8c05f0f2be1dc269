// munia predict: the feeling of a text and a reply to it, in one call.
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/sampling_flags.h"
#include "cli/session.h"
#include "cli/task_options.h"
#include "tasks/result_json.h"

namespace munia::cli {
namespace {

struct PredictFlags {
  TaskOptions task;
  TextOptions text;
  std::int64_t max_tokens = 128;
  float repetition_penalty = 1;
  std::vector<std::string> stops;
  BeamFlags beams;
  bool no_reply = false;
  std::string prompt = "separate";
};

std::string emotion_line(const tasks::Classification& emotion) {
  const std::string prefix = emotion.emoji.empty() ? "" : emotion.emoji + " ";
  return prefix + "LLM 情感判断: " + (emotion.label ? *emotion.label : emotion.raw);
}

std::string prediction_json(const std::string& text, const tasks::Prediction& prediction) {
  JsonWriter writer;
  writer.begin_object().field("text", text);
  tasks::write_emotion(writer, prediction.emotion);
  tasks::write_reply(writer, prediction);
  tasks::write_prediction_end(writer, prediction);
  writer.end_object();
  return writer.text();
}

ExitStatus run_predict(const Context& context, const PredictFlags& flags) {
  const tasks::Task task = choose_task(context, flags.task);
  const decode::BeamParams beams = beams_from_flags(flags.beams);
  if (flags.prompt != "separate" && flags.prompt != "shared") {
    fail(ExitStatus::kUsage,
         context.lang.tr("--prompt {}: must be separate or shared",
                         "--prompt {}：应当是 separate 或 shared", flags.prompt));
  }
  if (flags.prompt == "shared" && task.raw) {
    fail(ExitStatus::kUsage,
         context.lang.tr("--prompt shared asks through the chat template; task {} does not use it",
                         "--prompt shared 通过对话模板提问，而任务 {} 不使用模板", task.name));
  }
  std::optional<Session> session;
  std::optional<tasks::Classifier> classifier;
  bool first = true;
  const auto predict_one = [&](const InputText& input) {
    tasks::PredictOptions options;
    if (flags.prompt == "shared") options.prompt = tasks::PromptForm::kShared;
    check_text(context, *classifier, *session->engine, input, options.prompt);
    options.max_tokens = flags.max_tokens;
    options.sampling.repetition_penalty = flags.repetition_penalty;
    options.stops = flags.stops;
    options.beams = beams;
    options.reply = !flags.no_reply;
    if (!context.json) {
      options.on_emotion = [&](const tasks::Classification& emotion) {
        if (!first) context.out->line("");
        context.out->line(emotion_line(emotion));
        if (!flags.no_reply) context.out->piece("LLM 对话回复: ");
      };
      options.on_text = [&](std::string_view piece) { context.out->piece(piece); };
    }
    Result<tasks::Prediction> prediction =
        tasks::predict(*session->engine, *classifier, input.text, options);
    context.out->end_line();
    const tasks::Prediction done = value_or_fail(std::move(prediction), input.where);
    if (context.json) context.out->line(prediction_json(input.text, done));
    first = false;
  };
  for_each_group(context, flags.text, 1, [&](const std::vector<InputText>& group) {
    check_not_blank(context, group.front());  // before a model is loaded for nothing
    if (!session) {
      session = open_session(context);
      classifier = make_classifier(*session->engine, task);
    }
    for (const InputText& input : group) predict_one(input);
  });
  return ExitStatus::kDone;
}

}  // namespace

void add_predict(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("predict", "the feeling of a text and a reply to it",
                                   "判断文本的情感并作出回复");
  const auto flags = std::make_shared<PredictFlags>();
  describe_text_options(spec, flags->text);
  describe_task_options(spec, flags->task);
  spec.integer("--max-tokens", flags->max_tokens, 1, 1 << 20, "most tokens of the reply",
               "回复的最大词元数");
  spec.number("--repetition-penalty", flags->repetition_penalty, 0.01F, 10,
              "of the reply, as in transformers", "回复的重复惩罚，同 transformers");
  spec.option("--stop", flags->stops, "TEXT", "ends the reply; may be given several times",
              "遇到即结束回复；可多次给出");
  describe_beam_flags(spec, flags->beams);
  spec.option(
      "--prompt", flags->prompt, "separate|shared",
      "separate: the task's own prompt for the feeling; shared: the reply's prompt, with the "
      "question behind the text, which is then computed once for both",
      "separate：用任务自己的提示判断情感；shared：共用回复的提示，问题放在文本之后，"
      "文本只计算一次");
  spec.flag("--no-reply", flags->no_reply, "the feeling only", "只判断情感");
  spec.run([&context, flags] { return run_predict(context, *flags); });
}

}  // namespace munia::cli
