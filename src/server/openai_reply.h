// Replies of /v1/chat/completions and /v1/completions as JSON, whole and in chunks, in the form
// that the strictest clients read (content is never null; a chunk of usage only where it was asked
// for).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "server/openai_request.h"
#include "text/stream_decoder.h"

namespace munia::server {

/// The "logprobs" of one choice. Tokens come in order; text_offset counts the characters before.
class LogprobsWriter {
 public:
  LogprobsWriter(const text::Tokenizer& tokenizer, bool chat)
      : tokenizer_(tokenizer), chat_(chat) {}
  /// A token that nothing stands before, so that has no probability.
  void add_first(std::int32_t id);
  void add(const decode::TokenLogprob& token);
  /// The object of the tokens added since the last call.
  std::string take();

 private:
  void add_to_text(std::int32_t id);
  void write_chat(JsonWriter& writer) const;
  void write_legacy(JsonWriter& writer) const;
  std::string token_text(std::int32_t id) const;

  const text::Tokenizer& tokenizer_;
  const bool chat_;
  text::StreamDecoder decoder_;
  std::int64_t n_characters_ = 0;
  struct Entry {
    decode::TokenLogprob token;
    bool is_first;
    std::int64_t offset;
  };
  std::vector<Entry> entries_;
};

/// The prompt and n_choices() results, in the order of the choices.
class ReplyWriter {
 public:
  ReplyWriter(const CompletionRequest& request, const LoadedModel& model, std::string request_id,
              std::string version);

  std::string whole(std::span<const engine::GenerateResult> results) const;
  /// The chunk before the first text of a choice.
  std::string first_chunk(std::int64_t choice) const;
  /// `logprobs` is JSON or empty.
  std::string text_chunk(std::int64_t choice, std::string_view text,
                         std::string_view logprobs) const;
  std::string finish_chunk(std::int64_t choice, std::string_view reason,
                           const engine::Timings& timings) const;
  std::string usage_chunk(const engine::Usage& usage) const;
  /// Each prompt counts once, whatever n is.
  engine::Usage total_usage(std::span<const engine::GenerateResult> results) const;

 private:
  void begin(JsonWriter& writer, bool chunk) const;
  void write_choice(JsonWriter& writer, std::int64_t choice,
                    const engine::GenerateResult& result) const;
  std::string echo_text(std::int64_t choice) const;

  const CompletionRequest& request_;
  const LoadedModel& model_;
  std::string id_;
  std::string fingerprint_;
  std::int64_t created_;
};

}  // namespace munia::server
