#include "hub/fetch.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/mapped_file.h"
#include "base/sha256.h"

namespace munia::hub {
namespace {

constexpr int kMaxTries = 4;                                        // of one file that breaks off
constexpr std::uint64_t kSpaceStepBytes = std::uint64_t{64} << 20;  // between looks at free space
constexpr std::size_t kMaxEtagBytes = 512;

// What one transfer writes to and learns from the headers.
struct Transfer {
  const FetchRequest* request = nullptr;
  const PullCallbacks* callbacks = nullptr;
  CURL* curl = nullptr;
  int fd = -1;
  std::uint64_t resumed_bytes = 0;   // in the part when the transfer began
  std::uint64_t received_bytes = 0;  // by this transfer
  std::uint64_t next_space_check = 0;
  std::uint64_t total_bytes = 0;  // 0: not known
  std::string etag;               // of the last reply in a chain of redirects
  std::string linked_sha256;      // X-Linked-ETag of any reply: the file's own hash
  bool too_long = false;
  std::optional<Error> error;  // what stopped it from inside
};

bool cancelled(const PullCallbacks& callbacks) {
  return callbacks.cancelled && callbacks.cancelled();
}

fs::path etag_path(const FetchRequest& request) { return request.part_path.string() + ".etag"; }

void report_progress(const Transfer& transfer) {
  if (!transfer.callbacks->on_progress) return;
  transfer.callbacks->on_progress({transfer.request->shown_name,
                                   transfer.resumed_bytes + transfer.received_bytes,
                                   transfer.total_bytes});
}

// Once, when the first bytes of a body come: the total is known from here on.
bool begin_body(Transfer& transfer) {
  long code = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &code);
  curl_off_t length = -1;
  curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (length >= 0) {
    transfer.total_bytes = transfer.resumed_bytes + static_cast<std::uint64_t>(length);
  }
  const std::uint64_t expected = transfer.request->size_bytes;
  if (expected != 0 && transfer.total_bytes != 0 && transfer.total_bytes != expected) {
    transfer.too_long = true;
    return false;
  }
  if (expected != 0) transfer.total_bytes = expected;
  const std::uint64_t missing = transfer.total_bytes > transfer.resumed_bytes
                                    ? transfer.total_bytes - transfer.resumed_bytes
                                    : 0;
  Status status = check_free_space(transfer.request->part_path.parent_path(), missing,
                                   "downloading " + transfer.request->shown_name);
  // Now, not at the end: a killed pull can then be continued.
  if (status && !transfer.etag.empty()) {
    status = write_file_atomically(etag_path(*transfer.request), transfer.etag);
  }
  if (!status) transfer.error = status.error();
  return status.ok();
}

std::size_t on_body(char* data, std::size_t size, std::size_t n, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t n_bytes = size * n;
  if (transfer.received_bytes == 0 && !begin_body(transfer)) return 0;
  const std::uint64_t expected = transfer.request->size_bytes;
  if (expected != 0 && transfer.resumed_bytes + transfer.received_bytes + n_bytes > expected) {
    transfer.too_long = true;
    return 0;
  }
  if (transfer.received_bytes >= transfer.next_space_check) {
    transfer.next_space_check = transfer.received_bytes + kSpaceStepBytes;
    Status room = check_free_space(transfer.request->part_path.parent_path(), n_bytes,
                                   "downloading " + transfer.request->shown_name);
    if (!room) {
      transfer.error = room.error();
      return 0;
    }
  }
  std::size_t n_written = 0;
  while (n_written < n_bytes) {
    const ssize_t written = ::write(transfer.fd, data + n_written, n_bytes - n_written);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      transfer.error = Error{
          errno == ENOSPC || errno == EDQUOT ? ErrorCode::kLimit : ErrorCode::kIo,
          "cannot write " + transfer.request->part_path.string() + ": " + std::strerror(errno)};
      return 0;
    }
    n_written += static_cast<std::size_t>(written);
  }
  transfer.received_bytes += n_bytes;
  report_progress(transfer);
  return n_bytes;
}

// The value of header `name` (lower case) in `line`, trimmed, or nothing.
std::optional<std::string> header_value(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(line[i])) != name[i]) return std::nullopt;
  }
  line.remove_prefix(name.size() + 1);
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::size_t end = line.find_last_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return std::string();
  return std::string(line.substr(begin, end - begin + 1));
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::size_t on_header(char* data, std::size_t size, std::size_t n, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * n);
  if (line.starts_with("HTTP/")) transfer.etag.clear();  // another reply of the chain begins
  if (auto etag = header_value(line, "etag"); etag && etag->size() <= kMaxEtagBytes) {
    transfer.etag = *etag;
  }
  if (auto linked = header_value(line, "x-linked-etag")) {
    std::erase(*linked, '"');
    if (is_sha256(*linked)) transfer.linked_sha256 = *linked;
  }
  return size * n;
}

int on_tick(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return cancelled(*static_cast<Transfer*>(user)->callbacks) ? 1 : 0;
}

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct FdCloser {
  int fd;
  ~FdCloser() {
    if (fd >= 0) close(fd);
  }
};

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

// A part may be continued when the whole will be checked by hash, or when the server can be asked
// whether its file is still the same (If-Range).
std::string resume_etag(const FetchRequest& request) {
  auto etag = read_file(etag_path(request).string(), kMaxEtagBytes);
  // A weak tag ("W/…") does not promise equal bytes, so it may not be used with ranges.
  return etag && etag->starts_with('"') ? *etag : std::string();
}

void set_options(CURL* curl, Transfer& transfer, const HubOptions& options) {
  const std::string& url = transfer.request->url;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                   url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "munia/0.1");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, options.connect_timeout_ms);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, options.stall_timeout_s);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_tick);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

FetchReply reply_of_http(long code, const std::string& url) {
  const std::string reason = "HTTP " + std::to_string(code) + " from " + url;
  if (code == 404 || code == 410) return {FetchState::kMissing, reason};
  if (code >= 500) return {FetchState::kNoAnswer, reason};
  return {FetchState::kRefused, reason};
}

// Length and hash of the whole part; then it gets its name.
Result<FetchReply> finish(const FetchRequest& request, const Transfer& transfer) {
  const std::uint64_t size = size_or_zero(request.part_path);
  const std::uint64_t expected = transfer.total_bytes;
  if (expected != 0 && size != expected) {
    forget_part(request);
    return FetchReply{FetchState::kWrongBytes, request.url + " gave " + std::to_string(size) +
                                                   " bytes instead of " + std::to_string(expected)};
  }
  const std::string& sha256 = request.sha256.empty() ? transfer.linked_sha256 : request.sha256;
  if (!sha256.empty()) {
    MUNIA_ASSIGN_OR_RETURN(const std::string actual, sha256_of_file(request.part_path.string(),
                                                                    transfer.callbacks->cancelled));
    if (actual != sha256) {
      forget_part(request);
      return FetchReply{FetchState::kWrongBytes, request.url + " gave bytes with SHA-256 " +
                                                     actual + " instead of " + sha256};
    }
  }
  MUNIA_RETURN_IF_ERROR(sync_file(request.part_path));
  MUNIA_RETURN_IF_ERROR(rename_durably(request.part_path, request.ready_path));
  std::error_code ignored;
  fs::remove(etag_path(request), ignored);
  return FetchReply{};
}

enum class Next { kStop, kFromPart, kFromStart };

// One transfer. Sets `next` to how to go on when its reply is not the last word.
Result<FetchReply> try_once(const FetchRequest& request, const HubOptions& options,
                            const PullCallbacks& callbacks, Next* next) {
  *next = Next::kStop;
  const std::string old_etag = resume_etag(request);
  if (request.sha256.empty() && old_etag.empty()) forget_part(request);
  if (request.size_bytes != 0 && size_or_zero(request.part_path) > request.size_bytes) {
    forget_part(request);
  }

  Transfer transfer;
  transfer.request = &request;
  transfer.callbacks = &callbacks;
  transfer.total_bytes = request.size_bytes;
  const FdCloser fd{
      ::open(request.part_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (fd.fd < 0) {
    return Error{ErrorCode::kIo,
                 "cannot write " + request.part_path.string() + ": " + std::strerror(errno)};
  }
  transfer.fd = fd.fd;
  transfer.resumed_bytes = size_or_zero(request.part_path);
  if (request.size_bytes != 0 && transfer.resumed_bytes == request.size_bytes) {
    return finish(request, transfer);
  }

  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  if (!curl) return Error{ErrorCode::kIo, "libcurl could not start: no memory"};
  transfer.curl = curl.get();
  set_options(curl.get(), transfer, options);
  std::unique_ptr<curl_slist, ListDeleter> headers;
  if (transfer.resumed_bytes > 0) {
    curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE,
                     static_cast<curl_off_t>(transfer.resumed_bytes));
    if (!old_etag.empty()) {
      headers.reset(curl_slist_append(nullptr, ("If-Range: " + old_etag).c_str()));
      curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
    }
  }
  const CURLcode result = curl_easy_perform(curl.get());
  long code = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &code);

  if (transfer.error) return *transfer.error;
  if (result == CURLE_ABORTED_BY_CALLBACK) {
    return Error{ErrorCode::kCancelled, "the pull was interrupted"};
  }
  if (transfer.too_long) {
    forget_part(request);
    return FetchReply{FetchState::kWrongBytes, request.url + " does not hold the " +
                                                   std::to_string(request.size_bytes) +
                                                   " bytes that are expected"};
  }
  if (result == CURLE_OK) return finish(request, transfer);
  // The server cannot continue (it ignores ranges, its file changed, or the part is not a beginning
  // of it): once more from the start.
  if (transfer.resumed_bytes > 0 && (result == CURLE_RANGE_ERROR || code == 416)) {
    forget_part(request);
    *next = Next::kFromStart;
    return FetchReply{FetchState::kBrokenOff, request.url + " cannot be resumed"};
  }
  if (result == CURLE_HTTP_RETURNED_ERROR) return reply_of_http(code, request.url);
  const std::string reason = request.url + ": " + curl_easy_strerror(result);
  if (code >= 200 && code < 300) {
    if (transfer.received_bytes > 0) *next = Next::kFromPart;
    return FetchReply{FetchState::kBrokenOff, reason};
  }
  return FetchReply{FetchState::kNoAnswer, reason};
}

}  // namespace

Result<FetchReply> fetch_file(const FetchRequest& request, const HubOptions& options,
                              const PullCallbacks& callbacks) {
  // libcurl wants this once per process, before its first use; it is never undone, since others in
  // the process may use it too.
  static std::once_flag curl_is_ready;
  std::call_once(curl_is_ready, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });

  // A new try is worth it only after one that brought bytes, or once from the start.
  bool restarted = false;
  for (int n_tries = 1;; ++n_tries) {
    Next next = Next::kStop;
    MUNIA_ASSIGN_OR_RETURN(FetchReply reply, try_once(request, options, callbacks, &next));
    if (next == Next::kStop || n_tries >= kMaxTries) return reply;
    if (next == Next::kFromStart && std::exchange(restarted, true)) return reply;
    if (cancelled(callbacks)) return Error{ErrorCode::kCancelled, "the pull was interrupted"};
    if (callbacks.on_note) callbacks.on_note(reply.reason + "; trying again");
  }
}

}  // namespace munia::hub
