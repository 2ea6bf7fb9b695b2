// What iperf3 makes of TCP on the loopback between two processes of its own, beside which pulls
// stand.
//
// It sends one block of 128 KiB again and again, and receives into one: out of the cache and into
// it, where a pull's bytes are each in memory once. Units: bytes a second. Thread: one.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/other_program.h"

namespace sluice {

/// Zero: it is not installed, or says nothing.
inline double iperf3_rate() {
#ifdef SLUICE_IPERF3
  const std::string said =
      said_beside({SLUICE_IPERF3, "-s", "-B", "127.0.0.1", "-p", "47316"},
                  {SLUICE_IPERF3, "-c", "127.0.0.1", "-p", "47316", "-n", "1G", "-J"});
  constexpr std::string_view name = "\"bits_per_second\":";
  const std::size_t received = said.rfind("\"sum_received\"");
  const std::size_t at = received == std::string::npos ? received : said.find(name, received);
  if (at != std::string::npos) return std::strtod(said.c_str() + at + name.size(), nullptr) / 8;
#endif
  return 0;
}

}  // namespace sluice
