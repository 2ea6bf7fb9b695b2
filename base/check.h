// Always-on assertions for bugs of ours: a failed check prints the place and stops the process.
//
// Expected failures (bad input, a lost peer, a full queue) are never checks: they are `Result`.
#pragma once

#include <string_view>

namespace sluice {

/// Prints `what` with its place to standard error and aborts. Never returns.
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view message);

}  // namespace sluice

#define SLUICE_CHECK(expression, ...)                                               \
  do {                                                                              \
    if (!(expression)) [[unlikely]]                                                 \
      ::sluice::check_failed(__FILE__, __LINE__, #expression,                       \
                             ::std::string_view{__VA_ARGS__});                      \
  } while (false)
