#include "runtime/hosts/cgroup_rules.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice::hosts {

namespace {

constexpr std::string_view host_prefix = "sluice-host-";
constexpr std::string_view program_prefix = "sluice-program-";

std::vector<std::string_view> split(std::string_view text, std::string_view at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(at), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool has_word(std::string_view text, std::string_view word, std::string_view at = " \n") {
  const auto words = split(text, at);
  return std::ranges::find(words, word) != words.end();
}

template <typename N>
std::optional<N> whole_number(std::string_view text) {
  N number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// Behind `key` in lines of "key number".
std::optional<std::uint64_t> counter(std::string_view lines, std::string_view key) {
  for (const std::string_view line : split(lines, "\n"))
    if (const auto words = split(line, " "); words.size() == 2 && words[0] == key)
      return whole_number<std::uint64_t>(words[1]);
  return {};
}

std::string_view version_text(CgroupVersion version) {
  return version == CgroupVersion::v1 ? "cgroup v1" : "cgroup v2";
}

Error none(CgroupVersion version, const std::string& why) {
  return {ErrorCode::not_found, std::string(version_text(version)) + ": " + why};
}
Error refused(CgroupVersion version, const std::string& why) {
  return {ErrorCode::unavailable, std::string(version_text(version)) + ": " + why};
}

/// The path of the process in the hierarchy: "9:memory:/a/b" is a line of v1, "0::/a/b" that of v2.
std::optional<std::string> path_in(CgroupVersion version, std::string_view cgroups) {
  for (const std::string_view line : split(cgroups, "\n")) {
    const std::size_t first = line.find(':');
    if (first == line.npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = version == CgroupVersion::v1
                           ? has_word(controllers, "memory", ",")
                           : line.substr(0, first) == "0" && controllers.empty();
    if (is_it) return std::string(line.substr(second + 1));
  }
  return {};
}

/// A path of mountinfo, in which blanks and the like stand as "\040".
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, byte, 8).ptr == digits + 3) {
      plain += static_cast<char>(byte);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

struct Mount {
  std::string root;  // of the hierarchy, which is seen at `point`
  std::string point;
};

/// "35 31 0:32 ROOT POINT OPTIONS [more] - TYPE SOURCE SUPER_OPTIONS"
std::vector<Mount> mounts_of(CgroupVersion version, std::string_view mounts) {
  std::vector<Mount> found;
  for (const std::string_view line : split(mounts, "\n")) {
    const auto words = split(line, " ");
    const auto dash = std::ranges::find(words, std::string_view("-"));
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const bool is_it = version == CgroupVersion::v1
                           ? dash[1] == "cgroup" && has_word(dash[3], "memory", ",")
                           : dash[1] == "cgroup2";
    if (is_it) found.push_back({unescaped(words[3]), unescaped(words[4])});
  }
  return found;
}

/// `path` as it goes on below `root`: "" or "/a/b". Nothing: it is not below.
std::optional<std::string> below(const std::string& root, const std::string& path) {
  if (path.starts_with("/..")) return {};
  if (root == "/") return path == "/" ? "" : path;
  if (path == root) return "";
  if (path.starts_with(root + "/")) return path.substr(root.size());
  return {};
}

}  // namespace

Result<std::string> own_cgroup(CgroupVersion version, std::string_view cgroups,
                               std::string_view mounts) {
  const auto path = path_in(version, cgroups);
  if (!path) return none(version, "the kernel has no memory controller there");
  const std::vector<Mount> found = mounts_of(version, mounts);
  if (found.empty()) return none(version, "is not mounted");
  // The newest mount at a place hides those before it.
  for (auto mount = found.rbegin(); mount != found.rend(); ++mount)
    if (const auto rest = below(mount->root, *path)) return mount->point + *rest;
  return none(version, "the cgroup of this process, " + *path + ", is not in what is mounted at " +
                           found.back().point);
}

namespace {

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
  return std::string(name.kind == CgroupName::Kind::host ? host_prefix : program_prefix) +
         std::to_string(name.space) + "-" + std::to_string(name.process) + "-" +
         std::to_string(name.number);
}

std::optional<CgroupName> cgroup_name(std::string_view name) {
  CgroupName made;
  std::string_view rest = name;
  if (name.starts_with(host_prefix)) {
    rest.remove_prefix(host_prefix.size());
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
