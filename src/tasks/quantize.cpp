#include "tasks/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "decode/logprobs.h"
#include "model/input_moments.h"
#include "tasks/prompts.h"
#include "tasks/task.h"

namespace munia::tasks {
namespace {

constexpr std::int64_t kStepTokens = 256;                     // of a prompt in one pass
constexpr std::size_t kLogitsBytes = std::size_t{256} << 20;  // of the prompts that are compared

constexpr const char* kSampleTexts[] = {
    "今天的实验终于成功了，太棒了！",
    "快递拖了一个星期才到，箱子还破了一个角，打电话过去也没人接。",
    "酒店离地铁口很近，房间干净，前台的小姑娘还帮我们存了行李，下次还住这里。",
    "电影前半段节奏有点慢，后半段倒是很感人，散场的时候旁边好几个人都在擦眼泪。",
    "耳机音质不错，就是戴久了夹得耳朵疼。",
    "面条坨成一团，汤也凉了，这个价钱实在不值。",
    "帮我把下面这段话改得客气一点：你们的报告又晚了三天，到底什么时候能交？",
    "请用三句话介绍一下长江。",
    "充电器用了不到一个月就坏了，卖家让我自己承担运费，气死我了。",
    "老师讲得特别细，孩子第一次主动说想去上课。",
    "服务态度一般，菜的味道还可以，环境有点吵。",
    "这本书的翻译读起来很别扭，看了十几页就放下了。",
    "周末和朋友去爬山，天气晴朗，山顶的风很舒服，大家都不想下来。",
    "客服回复很快，问题当天就解决了，给五星好评！",
    "空调半夜滴水，地毯湿了一大片，换房间还要加钱，再也不会来了。",
    "怎样才能让刚开始跑步的人坚持下去？",
    "手机屏幕清晰，电池也耐用，拍照稍微差一点，总的来说满意。",
    "等了五十分钟才送到，饮料还洒了一袋子，骑手连句抱歉都没有。",
    "奶奶收到这件毛衣高兴得不得了，颜色和尺寸都正好。",
    "游泳池水很浑，更衣室的柜子一半是坏的。",
    "我最近总是睡不好，心里很烦，不知道该跟谁说。",
    "草莓又大又甜，一个坏的都没有，包装也很用心。",
    "软件更新以后老是闪退，聊天记录也丢了，谁来管管？",
    "请给“春天”写一句不超过二十个字的广告语。",
    "停车场太小，转了三圈都没有位子，最后停到了马路对面。",
    "虽然排队的人很多，但是工作人员安排得井井有条，没等多久就进去了。",
    "衣服洗了一次就缩水，线头也多，跟图片完全两回事。",
    "早餐种类很丰富，豆浆是现磨的，小笼包皮薄馅大。",
    "没有想象中那么好，但也不算太差吧。",
    "恭喜你们队拿了冠军！训练的辛苦没有白费。",
    "医生很耐心，把检查结果一项一项讲给我们听，心里踏实多了。",
    "牛肉面里只有两片肉，面倒是劲道。",
    "The room was clean and quiet, and breakfast was better than I expected.",
    "It stopped working after two days, and nobody answers my messages. What a waste of money.",
    "Explain in simple words why the sky is blue.",
    "Delivery was fast, the box arrived in perfect shape, and the kids love it.",
    "The plot made no sense and the ending felt rushed, though the music was lovely.",
    "Write a short thank-you note to a colleague who helped me move house.",
    "I waited forty minutes for a cold burger. Never again.",
    "What should I pack for a three-day hike in autumn?",
};

using Ids = std::vector<std::int32_t>;

/// Runs prompts through a model, each alone.
class Reader {
 public:
  Reader(const model::Model& model, ThreadPool& pool)
      : model_(model),
        pool_(pool),
        kv_(std::make_shared<model::KvPool>(model.kv_layout(),
                                            std::numeric_limits<std::size_t>::max())),
        activations_(model.config(), model.kernels(), pool.n_threads(),
                     {.max_tokens = kStepTokens,
                      .max_logit_rows = 1,
                      .max_sequences = 1,
                      .max_keys = model.context()}) {}

  /// The logits behind the ids [vocab_size], valid until the next call; all layers' inputs are
  /// shown to `observer` (or nullptr). 0 < number of ids <= the context.
  Result<std::span<const float>> read(std::span<const std::int32_t> ids,
                                      model::InputObserver* observer) {
    model::KvCache kv(kv_);
    while (true) {
      const std::size_t n = std::min(ids.size(), static_cast<std::size_t>(kStepTokens));
      MUNIA_RETURN_IF_ERROR(kv.reserve(static_cast<std::int64_t>(n)));
      model::Batch batch;
      batch.sequences.push_back({&kv, ids.first(n), {}});
      if (n == ids.size()) {
        batch.sequences.back().logit_rows.emplace_back(static_cast<std::int64_t>(n) - 1);
      }
      batch.observer = observer;
      model_.forward(batch, activations_, pool_);
      ids = ids.subspan(n);
      if (ids.empty()) return std::span<const float>(activations_.logits(0));
    }
  }

 private:
  const model::Model& model_;
  ThreadPool& pool_;
  std::shared_ptr<model::KvPool> kv_;
  model::Activations activations_;
};

/// KL(first || second) of the distributions that logits stand for.
double divergence_of(std::span<const float> first, std::span<const float> second) {
  const decode::LogSoftmax first_log(first);
  const decode::LogSoftmax second_log(second);
  double divergence = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double log_p = first_log.of(first[i]);
    if (const double p = std::exp(log_p); p > 0) {
      divergence += p * (log_p - second_log.of(second[i]));
    }
  }
  return divergence;
}

/// The prompts of both jobs; for a model without a chat template the text itself. Cut to the
/// context.
Result<std::vector<Ids>> prompts_of(const engine::ModelBundle& bundle, const Task& task,
                                    const std::string& text) {
  std::vector<Ids> prompts;
  if (bundle.chat_template) {
    const std::string question = fill_template(task.user_template, text);
    for (const auto& context :
         {chat_context(task.system, question), chat_context(task.reply_system, text)}) {
      MUNIA_ASSIGN_OR_RETURN(Ids ids, bundle.render_ids(context));
      prompts.push_back(std::move(ids));
    }
  } else {
    MUNIA_ASSIGN_OR_RETURN(Ids ids, bundle.plain_ids(text));
    prompts.push_back(std::move(ids));
  }
  const auto context = static_cast<std::size_t>(bundle.model->context());
  for (Ids& ids : prompts) ids.resize(std::min(ids.size(), context));
  std::erase_if(prompts, [](const Ids& ids) { return ids.empty(); });
  return prompts;
}

class Search {
 public:
  Search(const engine::ModelBundle& bundle, const QuantizeOptions& options, ThreadPool& pool)
      : exact_(*bundle.model), options_(options), pool_(pool) {}

  /// Runs the exact model.
  Status observe(std::vector<Ids> prompts) {
    prompts_ = std::move(prompts);
    Reader reader(exact_, pool_);
    for (const Ids& ids : prompts_) {
      if (options_.cancelled()) return stopped();
      MUNIA_ASSIGN_OR_RETURN(const std::span<const float> logits, reader.read(ids, &moments_));
      if (logits_.size() <= kLogitsBytes / logits.size_bytes()) {
        logits_.emplace_back(logits.begin(), logits.end());
      }
    }
    return {};
  }

  Status find_best(Quantized& best) {
    best.divergence = std::numeric_limits<double>::infinity();
    double last = 0;
    for (const double damping : options_.dampings) {
      best.model.reset();
      best.model = make(damping);
      last = damping;
      MUNIA_ASSIGN_OR_RETURN(const double divergence, compare(*best.model));
      if (!(divergence < best.divergence)) continue;
      best.divergence = divergence;
      best.damping = damping;
    }
    if (!std::isfinite(best.divergence)) {
      return Error{ErrorCode::kUnsupported,
                   "with int4 weights this model's next tokens are no finite numbers; take int8"};
    }
    if (last == best.damping) return {};
    best.model.reset();  // and made again: there is never a second one in memory
    best.model = make(best.damping);
    return {};
  }

 private:
  static Error stopped() { return {ErrorCode::kCancelled, "quantizing was stopped"}; }
  std::unique_ptr<model::Model> make(double damping) const {
    return model::Model::quantized(exact_, options_.mode, moments_, damping, options_.head, pool_);
  }
  Result<double> compare(const model::Model& model) const {
    Reader reader(model, pool_);
    double sum = 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (options_.cancelled()) return stopped();
      MUNIA_ASSIGN_OR_RETURN(const std::span<const float> logits,
                             reader.read(prompts_[i], nullptr));
      sum += divergence_of(logits_[i], logits);
    }
    return sum / static_cast<double>(logits_.size());
  }

  const model::Model& exact_;
  const QuantizeOptions& options_;
  ThreadPool& pool_;
  std::vector<Ids> prompts_;
  std::vector<std::vector<float>> logits_;  // of the exact model behind the first prompts
  model::InputMoments moments_;
};

}  // namespace

std::span<const char* const> sample_texts() { return kSampleTexts; }

Result<Quantized> quantize_with_texts(const engine::ModelBundle& bundle,
                                      std::span<const std::string> texts,
                                      const QuantizeOptions& options, ThreadPool& pool) {
  MUNIA_ASSIGN_OR_RETURN(const Task task, builtin_task("sentiment"));
  Quantized result;
  std::vector<Ids> prompts;
  for (const std::string& text : texts) {
    MUNIA_ASSIGN_OR_RETURN(std::vector<Ids> of_text, prompts_of(bundle, task, text));
    ++result.n_texts;
    for (Ids& ids : of_text) {
      result.n_tokens += static_cast<std::int64_t>(ids.size());
      prompts.push_back(std::move(ids));
    }
    if (result.n_tokens >= options.max_tokens) break;
  }
  if (prompts.empty()) {
    return Error{ErrorCode::kInvalidArgument, "there is no text to quantize with"};
  }
  Search search(bundle, options, pool);
  MUNIA_RETURN_IF_ERROR(search.observe(std::move(prompts)));
  MUNIA_RETURN_IF_ERROR(search.find_best(result));
  return result;
}

}  // namespace munia::tasks
