#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace munia {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "munia: internal mistake: %s does not hold (%s:%d)\n", condition, file,
               line);
  std::abort();
}

}  // namespace munia
