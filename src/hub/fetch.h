// One file by HTTP(S): resumes what an earlier try left, waits when a server asks for it, checks
// length and hash, and tells apart a server that does not answer from one that has no such file.
// The rules stand here; transfer.h speaks to libcurl. Private to this room.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "hub/home.h"
#include "hub/hub.h"

namespace munia::hub {

struct FetchRequest {
  std::string url;
  fs::path part_path;   // grows here; an earlier try's bytes are continued
  fs::path ready_path;  // the checked file is renamed to this
  std::string shown_name;
  std::string sha256 = {};       // empty: what the server says (X-Linked-ETag), if anything
  std::uint64_t size_bytes = 0;  // 0: what the server says
  std::string token = {};        // sent as "Authorization: Bearer" to the address' own host
  std::uint64_t max_bytes = 0;   // 0: no limit but the disk
  bool patient = false;          // the source has delivered before: also an error of a gateway
                                 // or a lost connection is worth another try
};

enum class FetchState {
  kDone,
  kMissing,     // the server answers and has no such file (404, 410)
  kNoAnswer,    // no connection, no name, no reply in time, or an error of a gateway (5xx)
  kRefused,     // answers, but does not give the file: 401, 403, 429, other codes
  kBrokenOff,   // began to deliver and stopped; what came is kept
  kWrongBytes,  // length or hash differ; what came is thrown away
};

struct FetchReply {
  FetchState state = FetchState::kDone;
  std::string reason = {};  // one clause, with the address; empty when done
  long http_code = 0;       // of the last reply; 0: there was none
};

/// An Error only for what no other source could mend: kCancelled, kLimit (disk), kIo.
Result<FetchReply> fetch_file(const FetchRequest& request, const HubOptions& options,
                              const PullCallbacks& callbacks);

}  // namespace munia::hub
