// munia.Model below its Python face: takes Python's values, asks engine and tasks, gives plain
// tuples and numpy arrays back. munia/_model.py makes the documented objects of them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "python/settings.h"
#include "python/stream.h"
#include "python/values.h"

namespace munia::python {

/// (text, ids, finish_reason, prompt, cached, completion tokens, first_token_ms, total_ms,
/// [(text, ids, finish_reason, score)] of a beam search)
nanobind::tuple generated_tuple(const engine::GenerateResult& result);

class PyModel {
 public:
  PyModel(const nanobind::bytes& path, const LoadSettings& settings)
      : core_(load_core({path.c_str(), path.size()}, settings)) {}

  void close() { core_->close(); }
  bool closed() const { return core_->closed(); }

  nanobind::dict info() const;
  Ids tokenize(nanobind::handle text, bool special) const;
  std::string detokenize(nanobind::handle ids, bool skip_special) const;
  /// `context`: a JSON object with "messages" and other variables of the template; (text, ids).
  nanobind::tuple render(nanobind::handle context) const;

  /// A prompt is a str or ids. generated_tuple().
  nanobind::tuple generate(nanobind::handle prompt, const ReplySettings& settings,
                           bool special) const;
  std::unique_ptr<Stream> stream(nanobind::handle prompt, const ReplySettings& settings,
                                 bool special) const;
  /// [n_continuations] sums of natural-log probabilities
  Array<double, 1> score(nanobind::handle prompt, nanobind::handle continuations,
                         bool special) const;
  /// [vocab_size]
  Array<float, 1> logits(nanobind::handle prompt, bool special) const;
  /// [n_tokens, vocab_size]
  Array<float, 2> all_logits(nanobind::handle prompt, bool special) const;
  /// Of each layer [n_tokens, hidden_dim].
  nanobind::list hidden(nanobind::handle prompt, const std::vector<std::int64_t>& layers,
                        bool special) const;

  /// Per text (label or None, confidence, {label: p} or None, raw, emoji, prompt, cached,
  /// completion tokens, n_pieces, truncated). With `keep_errors` a text that is empty or too long
  /// gives a str, what is wrong with it, instead of ending the call.
  nanobind::list classify(nanobind::handle texts, const TaskPtr& task,
                          const std::string& long_texts, bool keep_errors) const;
  /// (the same of the emotion, reply or None, finish_reason, prompt, cached, completion tokens,
  /// emotion_ms, first_token_ms, total_ms)
  nanobind::tuple predict(nanobind::handle text, const TaskPtr& task, const ReplySettings& settings,
                          bool reply, const std::string& prompt_form) const;
  /// What `munia fit` does with all rows: the task with what was learned from labelled texts.
  /// `labels` are places in the task's labels.
  TaskPtr learn(nanobind::handle texts, const std::vector<std::int64_t>& labels,
                const TaskPtr& task, const std::string& recipe) const;

 private:
  ClassifierPtr prepare(Call& call, const TaskPtr& task) const;
  std::shared_ptr<Core> core_;
};

}  // namespace munia::python
