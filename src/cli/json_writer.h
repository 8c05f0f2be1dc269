// The program's JSON output is written by base/json_writer.h; commands include it by this name.
#pragma once

#include "base/json_writer.h"
