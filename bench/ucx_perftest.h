// What ucx_perftest makes of reads between two processes of its own, beside which ours stand.
//
// Units: bytes a second. Thread: one; it waits for both processes. Errors: it ends this process.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/other_program.h"

namespace sluice {

/// Gets before those that are measured.
inline int perftest_warm_up(std::size_t gets) { return static_cast<int>(gets / 4 + 1); }

/// Bytes a second of ucx_perftest's gets of `size`, in two processes of its own, of so many threads
/// that get at once.
inline double perftest_rate(std::size_t size, std::size_t gets, unsigned threads = 1) {
  std::vector<std::string> server{SLUICE_UCX_PERFTEST, "-p", "47314", "-f"};
  std::vector<std::string> client{SLUICE_UCX_PERFTEST,
                                  "127.0.0.1",
                                  "-p",
                                  "47314",
                                  "-f",
                                  "-v",
                                  "-t",
                                  "ucp_get",
                                  "-s",
                                  std::to_string(size),
                                  "-n",
                                  std::to_string(gets),
                                  "-w",
                                  std::to_string(perftest_warm_up(gets))};
  if (threads > 1)
    for (auto* const side : {&server, &client})
      side->insert(side->end(), {"-T", std::to_string(threads), "-M", "multi"});
  const std::string said = said_beside(server, client);
  const std::size_t last = said.find_last_of(',');  // messages a second
  if (last == std::string::npos) {
    std::fprintf(stderr, SLUICE_UCX_PERFTEST " said no rate (without /sys it aborts)\n");
    std::exit(1);
  }
  return std::strtod(said.c_str() + last + 1, nullptr) * static_cast<double>(size);
}

}  // namespace sluice
