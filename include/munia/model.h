/// A loaded model: load once, then tokenize, render, generate, score, classify and predict from any
/// number of threads. Requests made at the same time are computed together; the result of each is
/// the same bytes as if it were alone.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "munia/errors.h"
#include "munia/types.h"

namespace munia {

/// A generation that goes on in the background. Must not outlive its Model.
class Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  /// Cancels the generation if wait() was not called.
  ~Generation();

  /// Blocks until it has ended; once. Throws Cancelled after cancel().
  Generated wait();
  /// Stops within one token; any thread, any time.
  void cancel();

 private:
  friend class Model;
  struct State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Model {
 public:
  /// Loads a Hugging Face directory, a .gguf or a packed .munia file. Throws ModelLoadError.
  explicit Model(const std::string& path, const LoadOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  /// Cancels what is running.
  ~Model();

  ModelInfo info() const;

  /// Ids of plain text, as Hugging Face tokenizers gives them. Special tokens in the text are data
  /// unless `parse_special`.
  Ids tokenize(std::string_view text, bool parse_special = false) const;
  /// The text of ids; bytes that are not UTF-8 become U+FFFD.
  std::string detokenize(std::span<const std::int32_t> ids, bool skip_special = false) const;
  /// A conversation by the model's own chat template.
  Rendered render(const std::vector<Message>& messages, bool add_generation_prompt = true) const;

  /// Continues a text, without a template.
  Generated generate(std::string_view text, const GenerateOptions& options = {},
                     const OnText& on_text = {}) const;
  /// Continues ids.
  Generated generate(const Ids& prompt, const GenerateOptions& options = {},
                     const OnText& on_text = {}) const;
  /// Answers a conversation.
  Generated chat(const std::vector<Message>& messages, const GenerateOptions& options = {},
                 const OnText& on_text = {}) const;
  /// Begins to continue ids and returns at once.
  Generation start(const Ids& prompt, const GenerateOptions& options = {},
                   const OnText& on_text = {}) const;

  /// Sums of the natural-log probabilities of each continuation's tokens behind the prompt.
  std::vector<double> score(const Ids& prompt, const std::vector<Ids>& continuations) const;
  std::vector<double> score(std::string_view prompt,
                            const std::vector<std::string>& continuations) const;

  /// Labels of texts by a task: a built-in name ("sentiment", "sentiment-best", "sentiment-raw",
  /// "sentiment-3") or a task file. Throws RequestError at the first text that cannot be labelled.
  std::vector<Labelled> classify(const std::vector<std::string>& texts,
                                 const std::string& task = "sentiment") const;
  /// Labels given here; `system` is the question, without it the usual one with these labels.
  std::vector<Labelled> classify(const std::vector<std::string>& texts,
                                 const std::vector<std::string>& labels,
                                 const std::optional<std::string>& system = std::nullopt) const;
  /// The feeling of a text and a reply to it, in one call.
  Predicted predict(std::string_view text, const std::string& task = "sentiment",
                    const GenerateOptions& options = {}, const OnText& on_text = {}) const;

  /// The raw logits behind the last id, [vocab_size].
  std::vector<float> logits(const Ids& prompt) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace munia
