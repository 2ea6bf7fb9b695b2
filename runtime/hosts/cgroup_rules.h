// Which cgroup can hold a role host's memory, what is written to it, and what its counters say of a
// death. Pure: texts of the kernel's files in, decisions out.
//
// What a cgroup is: base/own_cgroup.h. Thread: any. Units: bytes. Source: the kernel's documents
// cgroup-v2.rst and cgroup-v1/memory.rst, cgroups(7).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/own_cgroup.h"
#include "base/result.h"

namespace sluice::hosts {

using sluice::CgroupVersion;
using sluice::own_cgroup;

/// What the files of a process' own cgroup say; empty where one is not there.
struct OwnCgroup {
  std::string folder;
  bool writable = false;  // folders may be made in it
  // Of v1.
  std::string use_hierarchy;
  // Of v2.
  bool moves = false;  // processes may be moved out of it and controllers be switched on in it
  std::string type;
  std::string controllers;
  std::string subtree_control;
  std::string processes;
  // Of the folder above, where the cgroup is one that a program of ours made for itself.
  bool parent_writable = false;
  std::string parent_subtree_control;
};

/// Where hosts' cgroups can be made.
enum class CgroupWay {
  inside,  // in the process' own
  beside,  // in the one above, for its own is one that a program of ours made to stand in
  /// In the process' own, after it has moved into a new one there: with version 2 a cgroup has
  /// processes or limits those below it, never both.
  move,
};

/// Errors: unavailable, with the reason.
Result<CgroupWay> cgroup_way(CgroupVersion version, const OwnCgroup& own, pid_t self);

/// A text for a file of a new cgroup. Without one that is `needed` the cgroup is of no use; others
/// are not everywhere.
struct CgroupSetting {
  std::string file;
  std::string text;
  bool needed = false;
};
std::vector<CgroupSetting> cgroup_settings(CgroupVersion version, std::uint64_t memory);

/// Who made a cgroup, and what for, as its name says: "sluice-host-4026531835-711-2".
struct CgroupName {
  enum class Kind { host, program };
  Kind kind = Kind::host;
  std::uint64_t space = 0;  // the cgroup namespace of whoever made it
  std::uint64_t process = 0;
  std::uint64_t number = 0;
};
std::string text_of(const CgroupName& name);
/// Nothing: it is none of ours.
std::optional<CgroupName> cgroup_name(std::string_view name);

/// How often memory ran out in a cgroup.
struct CgroupCounts {
  std::optional<std::uint64_t> killed;  // processes, by the kernel; nothing: it does not tell
  std::uint64_t at_limit = 0;           // times that the cgroup's own limit was met
};
/// Of memory.events.
CgroupCounts counts_v2(std::string_view events);
/// Of memory.oom_control and memory.failcnt.
CgroupCounts counts_v1(std::string_view oom_control, std::string_view failures);

/// What is said behind how a host died, in parentheses; empty: memory had no part in it. `signal`:
/// by which it died; 0: none, or it was sent by us.
std::string memory_text(const CgroupCounts& counts, int signal, std::uint64_t memory);

/// The processes that cgroup.procs lists; 0 stands for one of another process namespace.
std::vector<pid_t> processes_in(std::string_view text);

}  // namespace sluice::hosts
