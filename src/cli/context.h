// What every command is given: language, settings, output, interrupts. Filled by main before the
// command runs.
#pragma once

#include "cli/exit_status.h"
#include "cli/input.h"
#include "cli/interrupts.h"
#include "cli/lang.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "hub/hub.h"

namespace munia::cli {

struct Context {
  Lang lang;
  Settings settings;
  hub::HubOptions hub;
  Output* out = nullptr;
  Interrupts* interrupts = nullptr;
  bool json = false;
  std::string notify_socket;  // of the service manager that started this process; may be empty
};

}  // namespace munia::cli
