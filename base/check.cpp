#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice {

void check_failed(const char* file, int line, const char* expression, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%.*s\n", file, line, expression,
               message.empty() ? "" : ": ", static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace sluice
