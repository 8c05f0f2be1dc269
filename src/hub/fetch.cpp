#include "hub/fetch.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/sha256.h"
#include "hub/common.h"
#include "hub/transfer.h"

namespace munia::hub {
namespace {

constexpr int kMaxVainTries = 4;                               // in a row, that brought nothing new
constexpr std::uint64_t kWorthBytes = std::uint64_t{1} << 20;  // what makes a try not vain
constexpr long kMaxRetryAfterS = 120;                          // a server may ask for so much

std::uint64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : std::uint64_t{size};
}

void forget_part(const FetchRequest& request) {
  std::error_code ignored;
  fs::remove(request.part_path, ignored);
  fs::remove(etag_path(request), ignored);
}

// The address, and the file where the address does not end with it (ModelScope's form).
std::string where(const FetchRequest& request) {
  std::string text = shown_address(request.url);
  if (!text.ends_with("/" + request.shown_name)) text += " (" + request.shown_name + ")";
  return text;
}

enum class Next {
  kStop,       // the reply is the last word
  kFromPart,   // again at once: what came is kept
  kFromStart,  // again at once, once only: the part was of no use
  kLater,      // again after a wait
};

struct Step {
  FetchReply reply;
  Next next = Next::kStop;
  long wait_s = -1;  // kLater: what the server asks for; -1: munia's own wait
};

// Length and hash of the whole part; then it gets its name.
Result<FetchReply> finish(const FetchRequest& request, const TransferResult& transfer,
                          const PullCallbacks& callbacks) {
  const std::string address = where(request);
  const std::uint64_t size = size_or_zero(request.part_path);
  const std::uint64_t expected =
      request.size_bytes != 0 ? request.size_bytes : transfer.total_bytes;
  if (expected != 0 && size != expected) {
    forget_part(request);
    return FetchReply{FetchState::kWrongBytes, address + " gave " + std::to_string(size) +
                                                   " bytes instead of " + std::to_string(expected)};
  }
  const std::string& sha256 = request.sha256.empty() ? transfer.linked_sha256 : request.sha256;
  if (!sha256.empty()) {
    MUNIA_ASSIGN_OR_RETURN(const std::string actual,
                           sha256_of_file(request.part_path.string(), callbacks.cancelled));
    if (actual != sha256) {
      forget_part(request);
      return FetchReply{FetchState::kWrongBytes, address + " gave bytes with SHA-256 " + actual +
                                                     " instead of " + sha256 +
                                                     "; they are thrown away"};
    }
  } else if (!transfer.length_is_sure) {
    forget_part(request);
    return FetchReply{FetchState::kWrongBytes,
                      address + " tells neither the length nor the hash of " + request.shown_name +
                          ", so nobody can say whether it came whole"};
  }
  MUNIA_RETURN_IF_ERROR(sync_file(request.part_path));
  MUNIA_RETURN_IF_ERROR(rename_durably(request.part_path, request.ready_path));
  std::error_code ignored;
  fs::remove(etag_path(request), ignored);
  return FetchReply{};
}

// The server says that the range begins at or after the end of its file: the part may be whole.
Result<Step> step_of_416(const FetchRequest& request, TransferResult transfer,
                         const PullCallbacks& callbacks) {
  const bool comparable =
      !request.sha256.empty() || !transfer.linked_sha256.empty() || transfer.etag_repeated;
  if (comparable && transfer.range_total == transfer.resumed_bytes) {
    transfer.length_is_sure = true;
    MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, finish(request, transfer, callbacks));
    if (reply.state == FetchState::kDone) return Step{reply};
  }
  forget_part(request);
  return Step{{FetchState::kBrokenOff, where(request) + " cannot be resumed", 416},
              Next::kFromStart};
}

Step step_of_http(const FetchRequest& request, const TransferResult& transfer) {
  const long code = transfer.code;
  Step step;
  step.reply = {FetchState::kRefused, "HTTP " + std::to_string(code) + " from " + where(request),
                code};
  if (code == 404 || code == 410) step.reply.state = FetchState::kMissing;
  if (code >= 500) step.reply.state = FetchState::kNoAnswer;
  if (code != 429 && code < 500) return step;
  const bool busy = code == 429 || code == 503;  // the codes that Retry-After belongs to
  if (busy && transfer.retry_after_s > kMaxRetryAfterS) {
    step.reply.reason += ", which asks to come again in " + std::to_string(transfer.retry_after_s) +
                         " s: pull again then";
    return step;
  }
  if (busy) step.wait_s = transfer.retry_after_s;
  if (code == 429 || step.wait_s >= 0 || request.patient) step.next = Next::kLater;
  return step;
}

// One transfer and what it means. `n_got` grows to the most bytes that the part ever had.
Result<Step> try_once(const FetchRequest& request, const HubOptions& options,
                      const PullCallbacks& callbacks, std::uint64_t* n_got) {
  // A part may be continued when the whole will be checked by hash, or when the server can be asked
  // whether its file is still the same.
  if (request.sha256.empty() && kept_etag(request).empty()) forget_part(request);
  const std::uint64_t n_here = size_or_zero(request.part_path);
  if (request.size_bytes != 0 && n_here > request.size_bytes) forget_part(request);
  if (request.size_bytes != 0 && n_here == request.size_bytes && !request.sha256.empty()) {
    MUNIA_ASSIGN_OR_RETURN(FetchReply reply, finish(request, {}, callbacks));
    return Step{reply, reply.state == FetchState::kDone ? Next::kStop : Next::kFromStart};
  }

  MUNIA_ASSIGN_OR_RETURN(const TransferResult transfer, run_transfer(request, options, callbacks));
  *n_got = std::max(*n_got, transfer.resumed_bytes + transfer.received_bytes);
  const std::string address = where(request);
  switch (transfer.end) {
    case TransferEnd::kWhole: {
      MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, finish(request, transfer, callbacks));
      return Step{reply};
    }
    case TransferEnd::kHttpError:
      if (transfer.code == 416 && transfer.resumed_bytes > 0) {
        return step_of_416(request, transfer, callbacks);
      }
      return step_of_http(request, transfer);
    case TransferEnd::kBrokenOff:
      return Step{{FetchState::kBrokenOff, address + ": " + transfer.reason, transfer.code},
                  transfer.received_bytes > 0 ? Next::kFromPart : Next::kLater};
    case TransferEnd::kNoAnswer:
      return Step{{FetchState::kNoAnswer, address + ": " + transfer.reason},
                  request.patient ? Next::kLater : Next::kStop};
    case TransferEnd::kHopeless:
      return Step{{FetchState::kNoAnswer, address + ": " + transfer.reason}};
    case TransferEnd::kChanged:
      forget_part(request);
      return Step{{FetchState::kBrokenOff, address + " cannot be resumed: " + transfer.reason,
                   transfer.code},
                  Next::kFromStart};
    case TransferEnd::kNotOurs:
      break;
  }
  // The part of an earlier try is not to blame for what a proxy says today.
  if (transfer.resumed_bytes == 0 || transfer.received_bytes > 0) forget_part(request);
  return Step{{FetchState::kWrongBytes, address + " is not what is expected: " + transfer.reason,
               transfer.code}};
}

// False when the pull was cancelled meanwhile.
bool wait_for(std::chrono::milliseconds time, const PullCallbacks& callbacks) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (cancelled(callbacks)) return false;
    std::this_thread::sleep_for(std::min(time, std::chrono::milliseconds(50)));
  }
  return !cancelled(callbacks);
}

}  // namespace

Result<FetchReply> fetch_file(const FetchRequest& request, const HubOptions& options,
                              const PullCallbacks& callbacks) {
  bool restarted = false;
  int n_vain = 0;
  std::uint64_t n_best = 0;  // the most bytes that the part had after a try that was not vain
  std::uint64_t n_got = 0;
  for (;;) {
    MUNIA_ASSIGN_OR_RETURN(Step step, try_once(request, options, callbacks, &n_got));
    if (step.next == Next::kStop) return step.reply;
    if (step.next == Next::kFromStart) {
      if (std::exchange(restarted, true)) return step.reply;
    } else if (n_got >= n_best + kWorthBytes) {
      n_best = n_got;  // the line is bad, but the file grows: this ends
      n_vain = 0;
    } else if (++n_vain >= kMaxVainTries) {
      return step.reply;
    }
    std::chrono::milliseconds wait{0};
    if (step.next == Next::kLater) {
      wait = step.wait_s >= 0 ? std::chrono::milliseconds(step.wait_s * 1000)
                              : std::chrono::milliseconds(options.retry_wait_ms << n_vain);
    }
    if (callbacks.on_note) {
      const std::string when =
          wait.count() < 1000 ? "" : " in " + std::to_string(wait.count() / 1000) + " s";
      callbacks.on_note(step.reply.reason + "; trying again" + when);
    }
    if (!wait_for(wait, callbacks)) return interrupted();
  }
}

}  // namespace munia::hub
