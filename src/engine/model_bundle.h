// Everything that comes from a model's files: tokenizer, chat template, weights, end tokens. Made
// once, shared by engine, tasks and edges; immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "decode/constraint.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace munia::engine {

struct BundleOptions {
  std::string isa;           // rung by name; empty: the best
  std::int64_t context = 0;  // 0: the model's own, at most 4,096
  model::HeadMode head = model::HeadMode::kAuto;
  std::optional<model::WeightMode> weights =
      std::nullopt;                             // none: exact, or what a packed file holds
  model::LoadWay load = model::LoadWay::kCopy;  // of a packed file
  bool verify = false;  // compare the sums of a packed file's matrices first
};

struct ModelBundle {
  std::string path;
  std::string name;  // last part of the path without .gguf or .munia
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<model::Model> model;              // null after load_text_bundle
  std::optional<text::ChatTemplate> chat_template;  // absent for base models without one
  std::string template_source;                      // of chat_template
  std::vector<std::int32_t> eos_ids;                // generation ends at any of these
  std::vector<std::int32_t> turn_end;  // what the template writes behind an assistant's turn
  double load_seconds = 0;

  /// Renders messages (and other template variables) of a JSON object and tokenizes the result.
  /// kUnsupported when the model has no chat template.
  Result<text::MarkedText> render(const boost::json::object& context) const;
  Result<std::vector<std::int32_t>> render_ids(const boost::json::object& context) const;
  /// Tokenizes plain text, with the begin token in front where the model's files ask for it.
  /// `parse_special`: special tokens in the text count as such.
  Result<std::vector<std::int32_t>> plain_ids(std::string_view text,
                                              bool parse_special = false) const;
  /// The bytes of the tokens that a constrained reply may consist of (no special ones); made at the
  /// first call, from any thread.
  std::shared_ptr<const decode::TokenIndex> token_index() const;
  /// A reply's constraint with its first mask, which may take a tenth of a second: not for the
  /// engine thread. kUnsupported where the grammar is too ambiguous to begin with.
  Result<std::shared_ptr<decode::Constraint>> begin_constraint(
      const grammar::GrammarPtr& grammar) const;

 private:
  mutable std::once_flag token_index_once_;
  mutable std::shared_ptr<const decode::TokenIndex> token_index_;
};

/// Loads a directory, a .gguf or a packed .munia file. Throws LoadError.
std::shared_ptr<const ModelBundle> load_bundle(const std::string& path,
                                               const BundleOptions& options, ThreadPool& pool);
/// Tokenizer and template only (tokenize, detokenize, render): no weights. Throws LoadError.
std::shared_ptr<const ModelBundle> load_text_bundle(const std::string& path);

/// Writes all of a bundle as a packed file, with the weights of `model`, its own or others made
/// from them; gives its size. kIo, kLimit or kCancelled.
Result<std::uint64_t> pack_bundle(const ModelBundle& bundle, const model::Model& model,
                                  const std::string& path, const std::string& producer,
                                  const files::MuniaFileWriter::Callbacks& callbacks);

}  // namespace munia::engine
