// Brings all files of one source, checked, into HOME/.partial/NAME/SOURCE/ready. Private to this
// room: pull.cpp decides which sources are tried and makes a model of what was delivered.
#pragma once

#include <string>

#include "base/error.h"
#include "hub/home.h"
#include "hub/hub.h"

namespace munia::hub {

/// Where the files of one source wait: HOME/.partial/NAME/SOURCE.
struct SourceDirs {
  fs::path ready;  // checked files
  fs::path work;   // unchecked ones

  static Result<SourceDirs> make(const Home& home, const std::string& name, const char* source_dir);
};

struct Delivery {
  bool done = false;
  bool answered = false;    // the source gave at least one file
  std::string reason;       // when not done: why, as one clause
  fs::path ready;           // when done: the directory with the checked files, and nothing else
  std::string source_text;  // "Hugging Face: Qwen/Qwen3-0.6B"
  std::string licence;      // as the source states it; empty: it says nothing
};

/// A Source without files stands for a repository of any model in Hugging Face's layout. An Error
/// only for what no other source could mend.
Result<Delivery> deliver(const Source& source, const Home& home, const std::string& name,
                         const HubOptions& options, const PullCallbacks& callbacks);
/// One file by its address, under `file_name`.
Result<Delivery> deliver_address(const std::string& url, const std::string& file_name,
                                 const Home& home, const std::string& name,
                                 const HubOptions& options, const PullCallbacks& callbacks);

}  // namespace munia::hub
