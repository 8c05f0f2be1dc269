#include "hub/transfer.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "hub/common.h"

namespace munia::hub {
namespace {

constexpr std::uint64_t kSpaceStepBytes = std::uint64_t{64} << 20;  // between looks at free space
constexpr std::size_t kMaxEtagBytes = 512;

// What one transfer writes to and learns from the headers.
struct Transfer {
  const FetchRequest* request = nullptr;
  const PullCallbacks* callbacks = nullptr;
  CURL* curl = nullptr;
  int fd = -1;
  TransferResult result;
  bool body_began = false;
  std::uint64_t next_space_check = 0;
  std::string asked_etag;  // sent as If-Range
  // Of the last reply in a chain of redirects:
  std::string etag;
  std::optional<std::uint64_t> range_begin;
  std::uint64_t range_total = 0;
  bool chunked = false;
  std::optional<Error> error;  // what stopped it from inside
};

// Stops the transfer: the reply is not what was asked for.
bool refuse(Transfer& transfer, TransferEnd end, std::string reason) {
  transfer.result.end = end;
  transfer.result.reason = std::move(reason);
  return false;
}

bool is_web_page(std::string_view head) {
  while (!head.empty() && std::isspace(static_cast<unsigned char>(head[0])) != 0) {
    head.remove_prefix(1);
  }
  for (std::string_view sign : {"<!doctype html", "<html"}) {
    if (head.size() >= sign.size() &&
        std::equal(sign.begin(), sign.end(), head.begin(), [](char a, char b) {
          return a == std::tolower(static_cast<unsigned char>(b));
        })) {
      return true;
    }
  }
  return false;
}

bool etag_repeated(const Transfer& transfer) {
  return !transfer.asked_etag.empty() && transfer.etag == transfer.asked_etag;
}

// A server may begin anew (200) although it was asked to continue: then so does the part.
bool place_body(Transfer& transfer) {
  TransferResult& result = transfer.result;
  if (result.resumed_bytes == 0) return true;
  if (result.code == 206) {
    if (transfer.range_begin != result.resumed_bytes) {
      return refuse(transfer, TransferEnd::kChanged, "it sends another range than asked for");
    }
    if (etag_repeated(transfer)) return true;
    if (!transfer.asked_etag.empty() && !transfer.etag.empty()) {
      return refuse(transfer, TransferEnd::kChanged, "its file has changed");
    }
    // Without a hash nothing else tells that both pieces are of one file: a server may ignore
    // If-Range. RFC 9110 (15.3.7) wants the ETag in a 206.
    if (transfer.request->sha256.empty() && result.linked_sha256.empty()) {
      return refuse(transfer, TransferEnd::kChanged, "it does not say that its file is the same");
    }
    return true;
  }
  if (ftruncate(transfer.fd, 0) != 0) {
    transfer.error = Error{ErrorCode::kIo, "cannot cut " + transfer.request->part_path.string() +
                                               ": " + std::strerror(errno)};
    return false;
  }
  result.resumed_bytes = 0;
  return true;
}

// Once, before the first byte of a body is taken: the total is known from here on.
bool begin_body(Transfer& transfer, std::string_view head) {
  const FetchRequest& request = *transfer.request;
  TransferResult& result = transfer.result;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &result.code);
  curl_off_t length = -1;
  curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  long version = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_HTTP_VERSION, &version);
  const bool continues = result.code == 206;
  std::uint64_t total = continues ? transfer.range_total : 0;
  if (total == 0 && length >= 0) {
    total = static_cast<std::uint64_t>(length) + (continues ? result.resumed_bytes : 0);
  }
  result.length_is_sure = total != 0 || request.size_bytes != 0 || transfer.chunked ||
                          version == CURL_HTTP_VERSION_2_0 || version == CURL_HTTP_VERSION_3;
  if (is_web_page(head) && (!continues || result.resumed_bytes == 0)) {
    return refuse(transfer, TransferEnd::kNotOurs,
                  "a web page came instead of the file: is a login page or a proxy in between?");
  }
  if (request.size_bytes != 0 && total != 0 && total != request.size_bytes) {
    return refuse(transfer, TransferEnd::kNotOurs,
                  "it has " + std::to_string(total) + " bytes instead of " +
                      std::to_string(request.size_bytes));
  }
  if (request.max_bytes != 0 && total > request.max_bytes) {
    return refuse(transfer, TransferEnd::kNotOurs,
                  "it has " + std::to_string(total) + " bytes, more than the " +
                      std::to_string(request.max_bytes) + " allowed");
  }
  if (!place_body(transfer)) return false;
  result.total_bytes = request.size_bytes != 0 ? request.size_bytes : total;
  const std::uint64_t missing =
      result.total_bytes > result.resumed_bytes ? result.total_bytes - result.resumed_bytes : 0;
  Status status = check_free_space(request.part_path.parent_path(), missing,
                                   "downloading " + request.shown_name);
  // Now, not at the end: a killed pull can then be continued.
  if (status && !transfer.etag.empty()) {
    status = write_file_atomically(etag_path(request), etag_text(request, transfer.etag));
  } else if (status && result.resumed_bytes == 0) {
    std::error_code ignored;
    fs::remove(etag_path(request), ignored);  // of what stood here before
  }
  if (!status) transfer.error = status.error();
  return status.ok();
}

bool write_bytes(Transfer& transfer, const char* data, std::size_t n_bytes) {
  while (n_bytes > 0) {
    const ssize_t written = ::write(transfer.fd, data, n_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const bool full = errno == ENOSPC || errno == EDQUOT;
      transfer.error = Error{
          full ? ErrorCode::kLimit : ErrorCode::kIo,
          "cannot write " + transfer.request->part_path.string() + ": " + std::strerror(errno) +
              (full ? "; make room or set MUNIA_HOME to another disk, then pull again: it "
                      "goes on from here"
                    : "")};
      return false;
    }
    data += written;
    n_bytes -= static_cast<std::size_t>(written);
    transfer.result.received_bytes += static_cast<std::uint64_t>(written);
  }
  return true;
}

std::size_t on_body(char* data, std::size_t size, std::size_t n, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const FetchRequest& request = *transfer.request;
  TransferResult& result = transfer.result;
  const std::size_t n_bytes = size * n;
  if (!std::exchange(transfer.body_began, true) && !begin_body(transfer, {data, n_bytes})) return 0;
  const std::uint64_t n_after = result.resumed_bytes + result.received_bytes + n_bytes;
  const std::uint64_t limit = request.size_bytes != 0 ? request.size_bytes : request.max_bytes;
  if (limit != 0 && n_after > limit) {
    refuse(transfer, TransferEnd::kNotOurs,
           "it goes on after the " + std::to_string(limit) + " bytes that are expected");
    return 0;
  }
  if (result.received_bytes >= transfer.next_space_check) {
    transfer.next_space_check = result.received_bytes + kSpaceStepBytes;
    Status room = check_free_space(request.part_path.parent_path(), n_bytes,
                                   "downloading " + request.shown_name);
    if (!room) {
      transfer.error = room.error();
      return 0;
    }
  }
  if (!write_bytes(transfer, data, n_bytes)) return 0;
  if (transfer.callbacks->on_progress) {
    transfer.callbacks->on_progress(
        {request.shown_name, result.resumed_bytes + result.received_bytes, result.total_bytes});
  }
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
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return std::string();
  }
  return std::string(line.substr(begin, end - begin + 1));
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The number that `text` begins with; nothing when there is none.
std::optional<std::uint64_t> number_at(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// "bytes A-B/N", "bytes A-B/*" or "bytes */N" (RFC 9110, 14.4).
void read_content_range(Transfer& transfer, std::string_view text) {
  if (!text.starts_with("bytes ")) return;
  text.remove_prefix(6);
  transfer.range_begin = number_at(text);
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    transfer.range_total = number_at(text.substr(slash + 1)).value_or(0);
  }
}

// Seconds, or a date (RFC 9110, 10.2.3).
long read_retry_after(const std::string& text) {
  constexpr std::uint64_t kMax = 1'000'000;
  if (const auto seconds = number_at(text)) return static_cast<long>(std::min(*seconds, kMax));
  const time_t date = curl_getdate(text.c_str(), nullptr);
  if (date < 0) return -1;
  const time_t now = time(nullptr);
  return date <= now ? 0 : static_cast<long>(std::min<std::uint64_t>(date - now, kMax));
}

std::size_t on_header(char* data, std::size_t size, std::size_t n, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * n);
  if (line.starts_with("HTTP/")) {  // another reply of the chain begins
    transfer.etag.clear();
    transfer.range_begin.reset();
    transfer.range_total = 0;
    transfer.chunked = false;
    transfer.result.retry_after_s = -1;
  }
  if (auto etag = header_value(line, "etag"); etag && etag->size() <= kMaxEtagBytes) {
    transfer.etag = *etag;
  } else if (auto range = header_value(line, "content-range")) {
    read_content_range(transfer, *range);
  } else if (auto wait = header_value(line, "retry-after")) {
    transfer.result.retry_after_s = read_retry_after(*wait);
  } else if (auto coding = header_value(line, "transfer-encoding")) {
    transfer.chunked = coding->find("chunked") != std::string::npos;
  } else if (auto linked = header_value(line, "x-linked-etag")) {
    std::erase(*linked, '"');
    if (is_sha256(*linked)) transfer.result.linked_sha256 = *linked;
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
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

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

void add_header(HeaderList& headers, const std::string& line) {
  curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) return;
  if (!headers) headers.reset(longer);  // else the list's head is still the same
}

// How it ended, once the transfer is over and was not stopped from inside.
void read_end(Transfer& transfer, CURLcode code) {
  TransferResult& result = transfer.result;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &result.code);
  result.range_total = transfer.range_total;
  result.etag_repeated = etag_repeated(transfer);
  if (code == CURLE_OK) return;
  result.reason = curl_easy_strerror(code);
  for (const CURLcode hopeless :
       {CURLE_TOO_MANY_REDIRECTS, CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT,
        CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE}) {
    if (code == hopeless) result.end = TransferEnd::kHopeless;
  }
  if (result.end == TransferEnd::kHopeless) return;
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    result.end = TransferEnd::kHttpError;
    result.reason = "HTTP " + std::to_string(result.code);
  } else if (result.code >= 200 && result.code < 300) {
    result.end = TransferEnd::kBrokenOff;
    if (code == CURLE_OPERATION_TIMEDOUT) result.reason = "no bytes came for too long";
  } else {
    result.end = TransferEnd::kNoAnswer;
  }
}

}  // namespace

fs::path etag_path(const FetchRequest& request) { return request.part_path.string() + ".etag"; }

std::string etag_text(const FetchRequest& request, const std::string& etag) {
  return etag + "\n" + sha256_hex(std::as_bytes(std::span(request.url))) + "\n";
}

std::string kept_etag(const FetchRequest& request) {
  const auto text = read_file(etag_path(request).string(), kMaxEtagBytes + 100);
  // A weak tag ("W/…") does not promise equal bytes, so it may not be used with ranges.
  if (!text || !text->starts_with('"')) return {};
  std::string etag = text->substr(0, text->find('\n'));
  return *text == etag_text(request, etag) ? etag : std::string();
}

Result<TransferResult> run_transfer(const FetchRequest& request, const HubOptions& options,
                                    const PullCallbacks& callbacks) {
  // libcurl wants this once per process, before its first use; it is never undone, since others in
  // the process may use it too.
  static std::once_flag curl_is_ready;
  std::call_once(curl_is_ready, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });

  Transfer transfer;
  transfer.request = &request;
  transfer.callbacks = &callbacks;
  const FdCloser fd{
      ::open(request.part_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  const off_t size = fd.fd < 0 ? -1 : lseek(fd.fd, 0, SEEK_END);
  if (size < 0) {
    return Error{ErrorCode::kIo,
                 "cannot write " + request.part_path.string() + ": " + std::strerror(errno)};
  }
  transfer.fd = fd.fd;
  transfer.result.resumed_bytes = static_cast<std::uint64_t>(size);

  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  if (!curl) return Error{ErrorCode::kIo, "libcurl could not start: no memory"};
  transfer.curl = curl.get();
  set_options(curl.get(), transfer, options);
  HeaderList headers;
  const std::string range = std::to_string(size) + "-";
  if (size > 0) {
    curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
    transfer.asked_etag = kept_etag(request);
    if (!transfer.asked_etag.empty()) add_header(headers, "If-Range: " + transfer.asked_etag);
  }
  // libcurl leaves this header out when a redirect leads to another host, port or protocol.
  if (!request.token.empty()) add_header(headers, "Authorization: Bearer " + request.token);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(curl.get());
  if (transfer.error) return *transfer.error;
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return interrupted();
  }
  if (transfer.result.end == TransferEnd::kWhole) read_end(transfer, code);
  // A reply without a byte of body never came to begin_body.
  if (transfer.result.end == TransferEnd::kWhole && !transfer.body_began) {
    transfer.result.length_is_sure = true;
    transfer.result.total_bytes = request.size_bytes;
    if (transfer.result.code == 206) {
      transfer.result.end = TransferEnd::kChanged;
    } else if (!place_body(transfer)) {
      return *transfer.error;
    }
  }
  return transfer.result;
}

}  // namespace munia::hub
