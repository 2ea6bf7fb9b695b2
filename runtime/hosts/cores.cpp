#include "runtime/hosts/cores.h"

#include <sched.h>

#include <algorithm>

namespace sluice::hosts {

std::vector<std::uint32_t> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint32_t> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::string cores_text(std::span<const std::uint32_t> cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]) +
            (last == i ? "" : "-" + std::to_string(cores[last]));
    i = last + 1;
  }
  return text;
}

Result<void> check_cores(std::span<const std::uint32_t> cores) {
  const std::vector<std::uint32_t> usable = usable_cores();
  for (const std::uint32_t core : cores)
    if (std::ranges::find(usable, core) == usable.end())
      return invalid_argument("core " + std::to_string(core) +
                              " is none of those that this process may use: " + cores_text(usable));
  return {};
}

bool bind_to(std::span<const std::uint32_t> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::uint32_t core : cores) CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace sluice::hosts
