// What several files of this room need and nobody else: an open file that closes itself, and the
// question whether the caller has cancelled. Private to this room.
#pragma once

#include <unistd.h>

#include "base/error.h"
#include "hub/hub.h"

namespace munia::hub {

struct FdCloser {
  explicit FdCloser(int opened) : fd(opened) {}
  FdCloser(const FdCloser&) = delete;
  FdCloser& operator=(const FdCloser&) = delete;
  ~FdCloser() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

inline bool cancelled(const PullCallbacks& callbacks) {
  return callbacks.cancelled && callbacks.cancelled();
}

inline Error interrupted() { return {ErrorCode::kCancelled, "interrupted"}; }

inline Status check_cancelled(const PullCallbacks& callbacks) {
  if (cancelled(callbacks)) return interrupted();
  return {};
}

}  // namespace munia::hub
