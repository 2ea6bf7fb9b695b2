#include "runtime/ucx/ucx_segments.h"

#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace sluice::ucx {

std::vector<Segment> attached_segments() {
  std::vector<Segment> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/SYSV") == std::string::npos) continue;
    std::istringstream words(line);
    std::string rights, offset, device;
    char dash = 0;
    Segment one;
    // The number stands where a file has its inode.
    words >> std::hex >> one.begin >> dash >> one.end >> rights >> offset >> device >> std::dec >>
        one.number;
    if (words && rights.starts_with('r')) all.push_back(one);
  }
  return all;
}

bool is_newly_attached(const std::vector<Segment>& before, std::uintptr_t at, std::uint64_t size) {
  const std::vector<Segment> now = attached_segments();
  const auto has_all = [&](const Segment& one) {
    return one.begin <= at && at <= one.end && size <= one.end - at;
  };
  const auto found = std::ranges::find_if(now, has_all);
  return found != now.end() &&
         std::ranges::find(before, found->begin, &Segment::begin) == before.end();
}

void keep_group_out() {
  for (const Segment& one : attached_segments()) {
    shmid_ds now{};
    if (::shmctl(one.number, IPC_STAT, &now) != 0 || now.shm_perm.uid != ::geteuid()) continue;
    now.shm_perm.mode &= S_IRUSR | S_IWUSR;
    ::shmctl(one.number, IPC_SET, &now);
  }
}

}  // namespace sluice::ucx
