#include "server/openai_reply.h"

#include <chrono>
#include <cmath>

#include "base/utf8.h"

namespace munia::server {
namespace {

// JSON has no -inf; OpenAI's API has this for "very unlikely".
double finite(double logprob) { return std::isinf(logprob) ? -9999.0 : logprob; }

void write_usage(JsonWriter& writer, const engine::Usage& usage) {
  writer.key("usage").begin_object();
  writer.field("prompt_tokens", usage.prompt_tokens)
      .field("completion_tokens", usage.completion_tokens)
      .field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  writer.key("prompt_tokens_details").begin_object();
  writer.field("cached_tokens", usage.cached_tokens).end_object().end_object();
}

void write_timings(JsonWriter& writer, const engine::Timings& timings) {
  const auto tenths = [](double ms) { return std::round(ms * 10) / 10; };
  writer.key("timings").begin_object();
  writer.field("queue_ms", tenths(timings.queue_ms))
      .field("first_token_ms", tenths(timings.first_token_ms))
      .field("total_ms", tenths(timings.total_ms))
      .end_object();
}

void write_bytes(JsonWriter& writer, std::string_view bytes) {
  writer.key("bytes").begin_array();
  for (const char c : bytes) writer.value(static_cast<int>(static_cast<unsigned char>(c)));
  writer.end_array();
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return n;
}

}  // namespace

void LogprobsWriter::add_first(std::int32_t id) {
  entries_.push_back({{id, 0, {}}, true, n_characters_});
  add_to_text(id);
}

void LogprobsWriter::add(const decode::TokenLogprob& token) {
  entries_.push_back({token, false, n_characters_});
  add_to_text(token.id);
}

void LogprobsWriter::add_to_text(std::int32_t id) {
  if (tokenizer_.is_special(id)) return;
  n_characters_ += count_characters(decoder_.push(tokenizer_.token_bytes(id)));
}

// A part of a character cannot stand in a JSON string: OpenAI's API writes its bytes.
std::string LogprobsWriter::token_text(std::int32_t id) const {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (!find_invalid_utf8(bytes)) return std::string(bytes);
  if (chat_) return replace_invalid_utf8(bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15U];
  }
  return text;
}

void LogprobsWriter::write_chat(JsonWriter& writer) const {
  writer.begin_object().key("content").begin_array();
  for (const Entry& entry : entries_) {
    const auto write_token = [&](std::int32_t id, double logprob) {
      writer.begin_object().field("token", token_text(id)).field("logprob", finite(logprob));
      write_bytes(writer, tokenizer_.token_bytes(id));
    };
    write_token(entry.token.id, entry.token.logprob);
    writer.key("top_logprobs").begin_array();
    for (const auto& [id, logprob] : entry.token.top) {
      write_token(id, logprob);
      writer.end_object();
    }
    writer.end_array().end_object();
  }
  writer.end_array().key("refusal").null().end_object();
}

void LogprobsWriter::write_legacy(JsonWriter& writer) const {
  writer.begin_object().key("tokens").begin_array();
  for (const Entry& entry : entries_) writer.value(token_text(entry.token.id));
  writer.end_array().key("token_logprobs").begin_array();
  for (const Entry& entry : entries_) {
    entry.is_first ? writer.null() : writer.value(finite(entry.token.logprob));
  }
  writer.end_array().key("top_logprobs").begin_array();
  for (const Entry& entry : entries_) {
    if (entry.is_first) {
      writer.null();
      continue;
    }
    writer.begin_object();
    for (const auto& [id, logprob] : entry.token.top) writer.field(token_text(id), finite(logprob));
    writer.end_object();
  }
  writer.end_array().key("text_offset").begin_array();
  for (const Entry& entry : entries_) writer.value(entry.offset);
  writer.end_array().end_object();
}

std::string LogprobsWriter::take() {
  JsonWriter writer;
  chat_ ? write_chat(writer) : write_legacy(writer);
  entries_.clear();
  return writer.text();
}

ReplyWriter::ReplyWriter(const CompletionRequest& request, const LoadedModel& model,
                         std::string request_id, std::string version)
    : request_(request),
      model_(model),
      id_((request.chat ? "chatcmpl-" : "cmpl-") + std::move(request_id)),
      fingerprint_("munia-" + std::move(version)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {}

void ReplyWriter::begin(JsonWriter& writer, bool chunk) const {
  const char* const object = !request_.chat ? "text_completion"
                             : chunk        ? "chat.completion.chunk"
                                            : "chat.completion";
  writer.begin_object();
  writer.field("id", id_).field("object", object).field("created", created_);
  writer.field("model", model_.id).field("system_fingerprint", fingerprint_);
}

std::string ReplyWriter::echo_text(std::int64_t choice) const {
  if (!request_.echo) return "";
  const auto& prompt = request_.prompts[static_cast<std::size_t>(choice / request_.n)];
  return model_.bundle->tokenizer->decode(prompt, true);
}

void ReplyWriter::write_choice(JsonWriter& writer, std::int64_t choice,
                               const engine::GenerateResult& result) const {
  writer.begin_object().field("index", choice);
  if (request_.chat) {
    writer.key("message").begin_object();
    writer.field("role", "assistant").field("content", result.text);
    writer.key("refusal").null().end_object();
  } else {
    writer.field("text", echo_text(choice) + result.text);
  }
  writer.key("logprobs");
  if (request_.logprobs) {
    LogprobsWriter logprobs(*model_.bundle->tokenizer, request_.chat);
    if (request_.echo) {
      logprobs.add_first(request_.prompts[static_cast<std::size_t>(choice / request_.n)].front());
      for (const decode::TokenLogprob& token : result.prompt_logprobs) logprobs.add(token);
    }
    for (const decode::TokenLogprob& token : result.logprobs) logprobs.add(token);
    writer.json(logprobs.take());
  } else {
    writer.null();
  }
  writer.field("finish_reason", result.finish_reason).end_object();
}

engine::Usage ReplyWriter::total_usage(std::span<const engine::GenerateResult> results) const {
  engine::Usage total;
  for (std::size_t i = 0; i < results.size(); ++i) {
    total.completion_tokens += results[i].usage.completion_tokens;
    if (static_cast<std::int64_t>(i) % request_.n != 0) continue;
    total.prompt_tokens += results[i].usage.prompt_tokens;
    total.cached_tokens += results[i].usage.cached_tokens;
  }
  return total;
}

std::string ReplyWriter::whole(std::span<const engine::GenerateResult> results) const {
  JsonWriter writer;
  begin(writer, false);
  writer.key("choices").begin_array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    write_choice(writer, static_cast<std::int64_t>(i), results[i]);
  }
  writer.end_array();
  write_usage(writer, total_usage(results));
  write_timings(writer, results.front().timings);
  writer.end_object();
  return writer.text();
}

std::string ReplyWriter::first_chunk(std::int64_t choice) const {
  if (!request_.chat) return text_chunk(choice, echo_text(choice), "");
  JsonWriter writer;
  begin(writer, true);
  writer.key("choices").begin_array().begin_object().field("index", choice);
  writer.key("delta").begin_object().field("role", "assistant").field("content", "").end_object();
  writer.key("logprobs").null().key("finish_reason").null().end_object().end_array();
  if (request_.include_usage) writer.key("usage").null();
  writer.end_object();
  return writer.text();
}

std::string ReplyWriter::text_chunk(std::int64_t choice, std::string_view text,
                                    std::string_view logprobs) const {
  JsonWriter writer;
  begin(writer, true);
  writer.key("choices").begin_array().begin_object().field("index", choice);
  if (request_.chat) {
    writer.key("delta").begin_object().field("content", text).end_object();
  } else {
    writer.field("text", text);
  }
  writer.key("logprobs");
  logprobs.empty() ? writer.null() : writer.json(logprobs);
  writer.key("finish_reason").null().end_object().end_array();
  if (request_.include_usage) writer.key("usage").null();
  writer.end_object();
  return writer.text();
}

std::string ReplyWriter::finish_chunk(std::int64_t choice, std::string_view reason,
                                      const engine::Timings& timings) const {
  JsonWriter writer;
  begin(writer, true);
  writer.key("choices").begin_array().begin_object().field("index", choice);
  if (request_.chat) {
    writer.key("delta").begin_object().end_object();
  } else {
    writer.field("text", "");
  }
  writer.key("logprobs").null().field("finish_reason", reason).end_object().end_array();
  if (request_.include_usage) writer.key("usage").null();
  write_timings(writer, timings);
  writer.end_object();
  return writer.text();
}

std::string ReplyWriter::usage_chunk(const engine::Usage& usage) const {
  JsonWriter writer;
  begin(writer, true);
  writer.key("choices").begin_array().end_array();
  write_usage(writer, usage);
  writer.end_object();
  return writer.text();
}

}  // namespace munia::server
