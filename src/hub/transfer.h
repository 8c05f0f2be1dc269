// One HTTP request with libcurl, whose body is appended to a file: what the server said and how it
// ended. Decides nothing about another try (fetch.cpp does). Private to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "hub/fetch.h"

namespace munia::hub {

enum class TransferEnd {
  kWhole,      // the body came to its end
  kHttpError,  // a code of 400 and more; no body was taken
  kBrokenOff,  // a 2xx whose body stopped: cut, stalled, or shorter than its length
  kNoAnswer,   // no reply at all
  kHopeless,   // another try would end in the same way: endless or forbidden redirects, a wrong
               // certificate, an address that is none
  kNotOurs,    // another length than asked for, too long, a web page: no byte of it was taken
  kChanged,    // asked to continue, the server continues another file than the one begun
};

struct TransferResult {
  TransferEnd end = TransferEnd::kWhole;
  std::string reason;                // one clause; empty when whole
  long code = 0;                     // of HTTP
  std::uint64_t resumed_bytes = 0;   // what the part held before; 0 also when the server began anew
  std::uint64_t received_bytes = 0;  // by this transfer
  std::uint64_t total_bytes = 0;     // of the whole file; 0: not known
  std::uint64_t range_total = 0;     // N of "Content-Range: bytes */N" in a 416
  long retry_after_s = -1;           // what Retry-After asks for; -1: nothing
  std::string linked_sha256;         // X-Linked-ETag of any reply of the chain
  bool etag_repeated = false;        // the last reply names the very ETag that If-Range asked for
  bool length_is_sure = false;       // by a length, a hash, or the framing of the body
};

/// The ETag of a part is kept beside it, so that a later process can ask whether it still holds.
fs::path etag_path(const FetchRequest& request);
/// What stands in that file: the ETag, and in the second line the SHA-256 of the address that gave
/// it (not the address itself, which may hold secrets).
std::string etag_text(const FetchRequest& request, const std::string& etag);
/// A strong ETag kept for the part; empty when there is none to rely on, or it is of another
/// address.
std::string kept_etag(const FetchRequest& request);

/// GETs request.url and appends to request.part_path; from its end on when it is not empty (with
/// If-Range when an ETag is kept). An Error for the disk and for kCancelled only.
Result<TransferResult> run_transfer(const FetchRequest& request, const HubOptions& options,
                                    const PullCallbacks& callbacks);

}  // namespace munia::hub
