#include "grammar/formats.h"

#include <string>

namespace munia::grammar {
namespace {

// RFC 3339; the 29th of February is left out, since it depends on the year.
const std::string kDate =
    "[12]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"
    "02-(?:0[1-9]|1\\d|2[0-8]))";
const std::string kTime =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const std::string kDateTime = kDate + "T" + kTime;
const std::string kUuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const std::string kByte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const std::string kIpv4 = kByte + "(?:\\." + kByte + "){3}";
const std::string kEmail =
    "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
    "(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+";

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  if (format == "date") return kDate;
  if (format == "time") return kTime;
  if (format == "date-time") return kDateTime;
  if (format == "uuid") return kUuid;
  if (format == "ipv4") return kIpv4;
  if (format == "email") return kEmail;
  return {};
}

}  // namespace munia::grammar
