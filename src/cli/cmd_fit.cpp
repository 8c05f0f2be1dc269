// munia fit: learns from a labelled file how a task's labels should be read off the model, shows
// each way beside the others on rows that it was not learned from, and writes a task file.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/fit_report.h"
#include "cli/labelled_rows.h"
#include "cli/session.h"
#include "cli/task_options.h"
#include "tasks/fit.h"
#include "tasks/task_file.h"

namespace munia::cli {
namespace {

namespace fs = std::filesystem;
using tasks::LabelledText;
using tasks::Recipe;

constexpr std::size_t kSizes[] = {20, 100, 400};  // rows to learn from, beside all
constexpr std::size_t kFolds = 5;
constexpr std::size_t kMostRows = 10'000;  // the states of a row take some 20 KB, several times
constexpr std::size_t kMostFewShotJudges = 400;
constexpr const char* kFewShot = "few-shot";
constexpr const char* kAuto = "auto";
constexpr Recipe kLearned[] = {Recipe::kPrior, Recipe::kThreshold, Recipe::kHead};

struct FitFlags {
  LabelledFile file;
  TaskOptions task;
  std::string output;
  std::string name;
  std::string recipe = kAuto;
  std::int64_t n_train = 0;  // rows to learn from; 0: all
  bool no_few_shot = false;
};

/// The rows that can be learned from: each text once, none that the model cannot take.
std::vector<LabelledText> usable_texts(const Context& context, const tasks::Classifier& classifier,
                                       const std::vector<LabelledRow>& rows) {
  std::vector<LabelledText> texts;
  std::set<std::string> seen;
  std::size_t n_repeated = 0;
  for (const LabelledRow& row : rows) {
    const std::size_t label = label_index_or_fail(context, classifier.task(), row);
    if (const Status status = classifier.check(row.text); !status) {
      print_note(context.lang.tr("line {} is left out: {}", "第 {} 行未使用：{}", row.line,
                                 status.error().message));
      continue;
    }
    if (!seen.insert(row.text).second) {
      ++n_repeated;
      continue;
    }
    texts.push_back({row.text, label});
  }
  if (n_repeated > 0) {
    print_note(context.lang.tr("rows left out because their text stands above already: {}",
                               "文本与前面重复而未使用的行数：{}", n_repeated));
  }
  if (texts.size() > kMostRows) {
    fail(ExitStatus::kBadInput,
         context.lang.tr("the file has {} usable rows; fit takes at most {}: choose with --limit",
                         "文件中有 {} 行可用，fit 最多使用 {} 行：请用 --limit 限制", texts.size(),
                         kMostRows));
  }
  return texts;
}

/// One run of munia fit: its rows, how they are split, and the trials.
class FitRun {
 public:
  FitRun(const Context& context, const FitFlags& flags, tasks::Task task)
      : context_(context), flags_(flags), task_(std::move(task)) {}

  ExitStatus run() {
    check_output();
    const std::vector<LabelledRow> rows = read_labelled_rows(context_, flags_.file);
    session_ = open_session(context_, {.greedy = false});
    pool_ = std::make_unique<ThreadPool>(pool_options(context_, session_->threads));
    const tasks::Classifier classifier = make_classifier(*session_->engine, task_);
    texts_ = usable_texts(context_, classifier, rows);
    split();
    const auto layers = tasks::learning_layers(session_->bundle->model->config().n_layers);
    rows_ = value_or_fail(tasks::read_rows(*session_->engine, classifier, texts_, layers,
                                           progress("reading", "读取", texts_.size())));
    show_progress("");
    print_trials_head(context_);
    for (const std::size_t size : kSizes) {
      if (size < train_.size()) try_size(size);
    }
    try_size(train_.size());
    write(choose_recipe());
    return ExitStatus::kDone;
  }

 private:
  void check_output() const {
    if (!flags_.output.ends_with(".toml")) {
      fail(ExitStatus::kUsage, context_.lang.tr("-o {}: a task file must end in .toml",
                                                "-o {}：任务文件必须以 .toml 结尾", flags_.output));
    }
    const fs::path dir = fs::path(flags_.output).parent_path();
    std::error_code error;
    if (!dir.empty() && !fs::is_directory(dir, error)) {
      fail(ExitStatus::kFailed,
           context_.lang.tr("cannot write {}: there is no directory {}", "无法写入 {}：没有目录 {}",
                            flags_.output, dir.string()));
    }
    for (const char* known : {kAuto, "zero-shot", "prior", "threshold", "head", kFewShot}) {
      if (flags_.recipe == known) return;
    }
    fail(ExitStatus::kUsage,
         context_.lang.tr("--recipe {}: it must be auto, zero-shot, prior, threshold, head or "
                          "few-shot",
                          "--recipe {}：只能是 auto、zero-shot、prior、threshold、head 或 few-shot",
                          flags_.recipe));
  }

  tasks::OnProgress progress(const char* english, const char* chinese, std::size_t n_all) const {
    return [this, english, chinese, n_all](std::size_t n) {
      if (n % 16 != 0) return;
      show_progress(
          n_all == 0 ? fmt::format("{} {}", context_.lang.pick(english, chinese), n)
                     : fmt::format("{} {} / {}", context_.lang.pick(english, chinese), n, n_all));
    };
  }

  // Which rows are learned from, and which are held out.
  void split() {
    std::vector<std::size_t> labels;
    for (const LabelledText& text : texts_) labels.push_back(text.label);
    train_ = tasks::shuffled_evenly(labels, task_.labels.size(), tasks::kShuffleSeed);
    const auto n_train = static_cast<std::size_t>(flags_.n_train);
    if (n_train == 0) return;
    if (n_train >= train_.size()) {
      fail(ExitStatus::kUsage,
           context_.lang.tr("--train {}: the file has {} usable rows, and some must be held out",
                            "--train {}：文件中有 {} 行可用，必须留出一部分", n_train,
                            train_.size()));
    }
    held_out_.assign(train_.begin() + static_cast<std::ptrdiff_t>(n_train), train_.end());
    train_.resize(n_train);
  }

  std::vector<std::size_t> first(std::size_t n) const {
    return {train_.begin(), train_.begin() + static_cast<std::ptrdiff_t>(n)};
  }

  // The rows that judge what was learned from the first `n`; none: by cross-validation.
  std::vector<std::size_t> judges(std::size_t n) const {
    if (!held_out_.empty()) return held_out_;
    return {train_.begin() + static_cast<std::ptrdiff_t>(n), train_.end()};
  }

  std::vector<tasks::JudgedRow> judge_all(const tasks::Learned& learned,
                                          const std::vector<std::size_t>& rows) const {
    std::vector<tasks::JudgedRow> judged;
    for (const std::size_t row : rows) judged.push_back(tasks::judge(learned, rows_, row));
    return judged;
  }

  // All rows that are learned from, each judged by what the others taught.
  const Result<std::vector<tasks::JudgedRow>>& cross_validated(Recipe recipe) {
    const auto known = crossed_.find(recipe);
    if (known != crossed_.end()) return known->second;
    return crossed_.emplace(recipe, tasks::cross_validate(recipe, rows_, train_, kFolds, *pool_))
        .first->second;
  }

  void add(FitTrial trial) {
    print_trial(context_, trial);
    trials_.push_back(std::move(trial));
  }

  void try_size(std::size_t n) {
    const std::vector<std::size_t> learn_rows = first(n);
    const std::vector<std::size_t> judge_rows = judges(n);
    const bool crosses = judge_rows.empty();
    const auto zero_shot = judge_all({}, crosses ? learn_rows : judge_rows);
    add({"zero-shot", n, "", zero_shot, zero_shot});
    for (const Recipe recipe : kLearned) {
      FitTrial trial{std::string(tasks::recipe_name(recipe)), n, "", {}, zero_shot};
      if (crosses) {
        const auto& judged = cross_validated(recipe);
        if (judged) {
          trial.judged = *judged;
        } else {
          trial.problem = judged.error().message;
        }
      } else if (const auto learned = tasks::learn(recipe, rows_, learn_rows, *pool_)) {
        trial.judged = judge_all(*learned, judge_rows);
      } else {
        trial.problem = learned.error().message;
      }
      add(std::move(trial));
    }
    if (!flags_.no_few_shot) try_few_shot(learn_rows, judge_rows);
  }

  // One more pass over the judges, since the prompt is another; without judges, on the last fifth.
  void try_few_shot(std::vector<std::size_t> learn_rows, std::vector<std::size_t> judge_rows) {
    FitTrial trial{kFewShot, learn_rows.size(), "", {}, {}};
    if (judge_rows.empty()) {
      const auto cut = static_cast<std::ptrdiff_t>(learn_rows.size() - learn_rows.size() / kFolds);
      judge_rows.assign(learn_rows.begin() + cut, learn_rows.end());
      learn_rows.resize(static_cast<std::size_t>(cut));
      trial.n_learned = learn_rows.size();
    }
    if (judge_rows.size() > kMostFewShotJudges) judge_rows.resize(kMostFewShotJudges);
    const auto few_shot = choose_examples(learn_rows);
    if (!few_shot) {
      trial.problem = few_shot.error().message;
      add(std::move(trial));
      return;
    }
    const tasks::Classifier classifier =
        make_classifier(*session_->engine, tasks::with_few_shot(task_, *few_shot));
    std::erase_if(judge_rows, [&](std::size_t row) { return !classifier.check(texts_[row].text); });
    const auto judged_rows = value_or_fail(
        tasks::read_rows(*session_->engine, classifier, texts_of(judge_rows), {},
                         progress("judging examples", "评测示例", judge_rows.size())));
    show_progress("");
    const tasks::Learned learned{few_shot->calibration, nullptr};
    for (std::size_t i = 0; i < judge_rows.size(); ++i) {
      trial.judged.push_back(tasks::judge(learned, judged_rows, i));
    }
    trial.zero_shot = judge_all({}, judge_rows);
    add(std::move(trial));
  }

  std::vector<LabelledText> texts_of(const std::vector<std::size_t>& rows) const {
    std::vector<LabelledText> texts;
    for (const std::size_t row : rows) texts.push_back(texts_[row]);
    return texts;
  }

  Result<tasks::FewShot> choose_examples(const std::vector<std::size_t>& rows) const {
    auto few_shot =
        tasks::choose_examples(*session_->engine, task_, texts_of(rows), tasks::kShuffleSeed,
                               progress("choosing examples", "挑选示例", 0));
    show_progress("");
    return few_shot;
  }

  // The recipe that was asked for, or the one with the most rows right when all rows that are
  // learned from are judged by cross-validation (the held-out rows choose nothing); of equal ones
  // the simplest.
  std::string choose_recipe() {
    if (flags_.recipe != kAuto) return flags_.recipe;
    const auto n_right = [](const std::vector<tasks::JudgedRow>& rows) {
      return std::count_if(rows.begin(), rows.end(),
                           [](const tasks::JudgedRow& row) { return row.is_right(); });
    };
    const std::vector<tasks::JudgedRow> zero_shot = judge_all({}, train_);
    std::vector<tasks::JudgedRow> best = zero_shot;
    std::string name = "zero-shot";
    std::string problem;
    bool any = false;
    for (const Recipe recipe : kLearned) {
      const auto& judged = cross_validated(recipe);
      if (!judged) problem = judged.error().message;
      any = any || judged;
      if (!judged || n_right(*judged) <= n_right(best)) continue;
      best = *judged;
      name = tasks::recipe_name(recipe);
    }
    if (!any) {
      fail(ExitStatus::kBadInput, context_.lang.tr("too few rows: {}", "行数太少：{}", problem));
    }
    if (name == "zero-shot") {
      fail(ExitStatus::kFailed,
           context_.lang.tr(
               "neither prior nor threshold nor head, learned from these {} rows, is better than "
               "asking the model as it is, so no task file is written; more rows may help, or "
               "--recipe NAME",
               "用这 {} 行学得的 prior、threshold 和 head 都不比直接询问模型更好，因此没有写入"
               "任务文件；可以增加行数，或用 --recipe NAME 指定方法",
               train_.size()));
    }
    if (tasks::compare(zero_shot, best).interval().low <= 0) {
      print_note(context_.lang.tr(
          "{}: by cross-validation its gain is not certain (the 95% interval holds zero)",
          "{}：交叉验证中的提升并不确定（95% 区间包含零）", name));
    }
    return name;
  }

  void write(const std::string& recipe) {
    tasks::Task task = task_;
    if (recipe == kFewShot) {
      task = tasks::with_few_shot(task, value_or_fail(choose_examples(train_)));
    } else {
      for (const Recipe known : kLearned) {
        if (recipe != tasks::recipe_name(known)) continue;
        task = tasks::with_learned(task, value_or_fail(tasks::learn(known, rows_, train_, *pool_)));
      }
    }
    const fs::path path = flags_.output;
    task.name = flags_.name.empty() ? path.stem().string() : flags_.name;
    const FitRecord record{flags_.file.path,
                           session_->bundle->name,
                           recipe,
                           train_.size(),
                           held_out_.empty()
                               ? "other rows of the file; all rows: 5-fold cross-validation "
                                 "(few-shot: the last fifth)"
                               : fmt::format("{} held-out rows", held_out_.size()),
                           trials_};
    if (const Status saved = tasks::save_task(task, path.string(), fit_record(record)); !saved) {
      fail(ExitStatus::kFailed, saved.error().message);
    }
    print_note(context_.lang.tr("{}: recipe {}, learned from {} rows; use it with --task {}",
                                "{}：方法为 {}，由 {} 行学得；使用时加上 --task {}", path.string(),
                                recipe, train_.size(), path.string()));
  }

  const Context& context_;
  const FitFlags& flags_;
  tasks::Task task_;
  std::optional<Session> session_;
  std::unique_ptr<ThreadPool> pool_;  // for learning; the engine has its own
  std::vector<LabelledText> texts_;
  tasks::LearningRows rows_;           // of texts_
  std::vector<std::size_t> train_;     // rows to learn from, shuffled
  std::vector<std::size_t> held_out_;  // rows that are never learned from
  std::vector<FitTrial> trials_;
  std::map<Recipe, Result<std::vector<tasks::JudgedRow>>> crossed_;
};

ExitStatus run_fit(const Context& context, const FitFlags& flags) {
  if (flags.output.empty()) {
    fail(ExitStatus::kUsage, context.lang.tr("name the task file to write with -o TASK.toml",
                                             "请用 -o TASK.toml 指定要写入的任务文件"));
  }
  tasks::Task task = choose_task(context, flags.task);
  // Learned anew from what the labels' texts score. Examples may stand in the file too: shown in
  // the prompt, they would judge themselves.
  task.examples.clear();
  task.calibration = {};
  task.head = nullptr;
  task.method = tasks::Method::kScore;
  return FitRun(context, flags, std::move(task)).run();
}

}  // namespace

void add_fit(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("fit", "learn a task from a labelled file, write a task file",
                                   "从标注文件学习，生成任务文件");
  const auto flags = std::make_shared<FitFlags>();
  describe_labelled_file(spec, flags->file);
  spec.option("-o,--output", flags->output, "TASK.toml", "the task file to write",
              "要写入的任务文件");
  spec.option("--name", flags->name, "NAME", "the task's name; else that of the file",
              "任务名称；默认用文件名");
  spec.option("--recipe", flags->recipe, "NAME",
              "what to learn: prior, threshold, head, few-shot, zero-shot, or auto: the best of "
              "the first three",
              "学习方法：prior、threshold、head、few-shot、zero-shot，或 auto：前三者中最好的");
  spec.integer("--train", flags->n_train, 0, 1 << 30,
               "learn from N rows and judge on the others; 0: learn from all",
               "用 N 行学习，其余行用于评测；0：全部用于学习");
  spec.flag("--no-few-shot", flags->no_few_shot,
            "leave out examples in the prompt, which take most of the time",
            "不尝试在提示中加入示例（这一步最耗时）");
  describe_task_options(spec, flags->task);
  spec.run([&context, flags] { return run_fit(context, *flags); });
}

}  // namespace munia::cli
