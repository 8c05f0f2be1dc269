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
};

struct ModelBundle {
  std::string path;
  std::string name;  // last part of the path without .gguf
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<model::Model> model;              // null after load_text_bundle
  std::optional<text::ChatTemplate> chat_template;  // absent for base models without one
  std::vector<std::int32_t> eos_ids;                // generation ends at any of these
  std::vector<std::int32_t> turn_end;  // what the template writes behind an assistant's turn
  double load_seconds = 0;

  /// Renders messages (and other template variables) of a JSON object and tokenizes the result.
  /// kUnsupported when the model has no chat template.
  Result<text::MarkedText> render(const boost::json::object& context) const;
  Result<std::vector<std::int32_t>> render_ids(const boost::json::object& context) const;
  /// Tokenizes plain text, with the begin token in front where the model's files ask for it.
  Result<std::vector<std::int32_t>> plain_ids(std::string_view text) const;
  /// The bytes of the tokens that a constrained reply may consist of (no special ones); made at the
  /// first call, from any thread.
  std::shared_ptr<const decode::TokenIndex> token_index() const;

 private:
  mutable std::once_flag token_index_once_;
  mutable std::shared_ptr<const decode::TokenIndex> token_index_;
};

/// Loads a directory or .gguf file. Throws LoadError.
std::shared_ptr<const ModelBundle> load_bundle(const std::string& path,
                                               const BundleOptions& options, ThreadPool& pool);
/// Tokenizer and template only (tokenize, detokenize, render): no weights. Throws LoadError.
std::shared_ptr<const ModelBundle> load_text_bundle(const std::string& path);

}  // namespace munia::engine
