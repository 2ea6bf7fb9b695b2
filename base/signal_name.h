// A signal's name for people: SIGKILL, or "signal 35" where it has none.
#pragma once

#include <csignal>
#include <cstring>
#include <string>

namespace sluice {

inline std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number);
}

}  // namespace sluice
