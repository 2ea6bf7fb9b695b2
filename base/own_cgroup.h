// The cgroup of this process, and how much memory it may have in it.
//
// A cgroup is the kernel's group of processes with limits of their own: a container is one. Its two
// versions may be there at once; the memory controller is in one of them. Thread: any. Units:
// bytes. Source: the kernel's documents cgroup-v2.rst and cgroup-v1/memory.rst, cgroups(7).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

enum class CgroupVersion { v1, v2 };

/// The folder in which the memory controller of that version shows this process' cgroup.
/// `cgroups`, `mounts`: the texts of /proc/self/cgroup and /proc/self/mountinfo. Errors: not_found,
/// with the reason.
Result<std::string> own_cgroup(CgroupVersion version, std::string_view cgroups,
                               std::string_view mounts);

/// What stands in a file of the kernel's, which says nothing of its size. Empty: it cannot be read.
std::string kernel_text(const std::string& path);

/// What the name of a role host's cgroup begins with.
inline constexpr std::string_view host_cgroup_prefix = "sluice-host-";

/// The least limit of this process' cgroup and of those above it, as far as they can be seen. Those
/// of role hosts do not count: their limit is of what the host touches, and what it maps may be
/// more, for a part of that is another process's. None: there is no limit. `text_of`: as
/// `kernel_text`.
std::optional<std::uint64_t> memory_limit(
    const std::function<std::string(const std::string&)>& text_of);

/// What this process may have: the machine's memory, or less where a cgroup has a limit.
struct MemoryHere {
  std::uint64_t bytes = 0;
  bool is_limited = false;
};
MemoryHere memory_here();

}  // namespace sluice
