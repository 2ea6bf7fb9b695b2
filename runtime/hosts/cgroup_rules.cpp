#include "runtime/hosts/cgroup_rules.h"

#include <signal.h>

#include <algorithm>
#include <array>

#include "base/words.h"

namespace sluice::hosts {

namespace {

constexpr std::string_view program_prefix = "sluice-program-";

/// Behind `key` in lines of "key number".
std::optional<std::uint64_t> counter(std::string_view lines, std::string_view key) {
  for (const std::string_view line : split(lines, "\n"))
    if (const auto words = split(line, " "); words.size() == 2 && words[0] == key)
      return whole_number<std::uint64_t>(words[1]);
  return {};
}

Error refused(CgroupVersion version, const std::string& why) {
  return {ErrorCode::unavailable,
          (version == CgroupVersion::v1 ? "cgroup v1: " : "cgroup v2: ") + why};
}

std::string base_name(const std::string& folder) {
  return folder.substr(folder.find_last_of('/') + 1);
}

Result<CgroupWay> way_v2(const OwnCgroup& own, pid_t self) {
  constexpr CgroupVersion v2 = CgroupVersion::v2;
  const auto name = cgroup_name(base_name(own.folder));
  if (name && name->kind == CgroupName::Kind::program && own.parent_writable &&
      has_word(own.parent_subtree_control, "memory"))
    return CgroupWay::beside;
  if (!has_word(own.controllers, "memory"))
    return refused(v2, "the memory controller is not available in " + own.folder);
  if (!own.writable) return refused(v2, "no folder may be made in " + own.folder);
  if (has_word(own.subtree_control, "memory")) return CgroupWay::inside;
  // The root of all has no type.
  if (!own.type.empty() && !has_word(own.type, "domain"))
    return refused(v2, own.folder + " is a threaded cgroup, which has no memory of its own");
  if (!own.moves) return refused(v2, "controllers of " + own.folder + " may not be switched on");
  for (const pid_t process : processes_in(own.processes))
    if (process != self)
      return refused(v2, "another process is in " + own.folder +
                             (process == 0 ? "" : ": " + std::to_string(process)) +
                             "; give this program a delegated cgroup of its own");
  return CgroupWay::move;
}

}  // namespace

Result<CgroupWay> cgroup_way(CgroupVersion version, const OwnCgroup& own, pid_t self) {
  if (version == CgroupVersion::v2) return way_v2(own, self);
  if (!own.writable) return refused(version, "no folder may be made in " + own.folder);
  // Then what hosts take would not count for the cgroup of this process.
  if (has_word(own.use_hierarchy, "0"))
    return refused(version, own.folder + "/memory.use_hierarchy is 0");
  return CgroupWay::inside;
}

std::vector<CgroupSetting> cgroup_settings(CgroupVersion version, std::uint64_t memory) {
  const std::string bytes = std::to_string(memory);
  // Memory that is swapped out would go round the limit, and its host would crawl and not end.
  if (version == CgroupVersion::v2)
    return {{"memory.max", bytes, true},
            {"memory.swap.max", "0", false},
            {"memory.oom.group", "1", false}};
  return {{"memory.limit_in_bytes", bytes, true},
          {"memory.swappiness", "0", false},
          {"memory.oom_control", "0", false}};
}

std::string text_of(const CgroupName& name) {
  return std::string(name.kind == CgroupName::Kind::host ? host_cgroup_prefix : program_prefix) +
         std::to_string(name.space) + "-" + std::to_string(name.process) + "-" +
         std::to_string(name.number);
}

std::optional<CgroupName> cgroup_name(std::string_view name) {
  CgroupName made;
  std::string_view rest = name;
  if (name.starts_with(host_cgroup_prefix)) {
    rest.remove_prefix(host_cgroup_prefix.size());
  } else if (name.starts_with(program_prefix)) {
    rest.remove_prefix(program_prefix.size());
    made.kind = CgroupName::Kind::program;
  } else {
    return {};
  }
  const auto parts = split(rest, "-");
  if (parts.size() != 3) return {};
  const std::array targets{&made.space, &made.process, &made.number};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto number = whole_number<std::uint64_t>(parts[i]);
    if (!number) return {};
    *targets[i] = *number;
  }
  if (text_of(made) != name) return {};  // "007", or one dash more
  return made;
}

CgroupCounts counts_v2(std::string_view events) {
  return {counter(events, "oom_kill"), counter(events, "oom").value_or(0)};
}

CgroupCounts counts_v1(std::string_view oom_control, std::string_view failures) {
  const auto lines = split(failures, "\n");
  return {counter(oom_control, "oom_kill"),
          lines.empty() ? 0 : whole_number<std::uint64_t>(lines[0]).value_or(0)};
}

std::string memory_text(const CgroupCounts& counts, int signal, std::uint64_t memory) {
  const std::string limit =
      "its `memory` is limited to " + std::to_string(memory >> 20) + " MiB, by a cgroup)";
  const bool killed = counts.killed.value_or(1) > 0;
  if (!killed || (!counts.killed && (signal != SIGKILL || counts.at_limit == 0))) return "";
  if (signal != SIGKILL)
    return counts.at_limit > 0 ? " (the kernel ended a process of it: " + limit : "";
  if (counts.at_limit > 0) return " (the kernel ended it: " + limit;
  return " (the kernel ended it: memory ran out outside its own cgroup)";
}

std::vector<pid_t> processes_in(std::string_view text) {
  std::vector<pid_t> processes;
  for (const std::string_view line : split(text, "\n"))
    if (const auto process = whole_number<pid_t>(line)) processes.push_back(*process);
  return processes;
}

}  // namespace sluice::hosts
