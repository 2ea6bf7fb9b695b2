#include "base/own_cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/owned_file.h"
#include "base/words.h"

namespace sluice {

namespace {

constexpr std::size_t text_most = 1U << 20U;  // of a file, where mountinfo is the longest

std::string_view version_text(CgroupVersion version) {
  return version == CgroupVersion::v1 ? "cgroup v1" : "cgroup v2";
}

Error none(CgroupVersion version, const std::string& why) {
  return {ErrorCode::not_found, std::string(version_text(version)) + ": " + why};
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

std::string kernel_text(const std::string& path) {
  const OwnedFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part{};
  while (file.get() >= 0 && text.size() < text_most) {
    const ssize_t came = ::read(file.get(), part.data(), part.size());
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(came));
  }
  return text;
}

std::optional<std::uint64_t> memory_limit(
    const std::function<std::string(const std::string&)>& text_of) {
  const std::string cgroups = text_of("/proc/self/cgroup");
  const std::string mounts = text_of("/proc/self/mountinfo");
  std::optional<std::uint64_t> least;
  for (const auto& [version, file] : {std::pair(CgroupVersion::v2, "/memory.max"),
                                      std::pair(CgroupVersion::v1, "/memory.limit_in_bytes")}) {
    const Result<std::string> own = own_cgroup(version, cgroups, mounts);
    if (!own.ok()) continue;
    // Above where it is mounted there is no such file; "max" is no number.
    for (std::string folder = *own; !folder.empty(); folder.resize(folder.find_last_of('/'))) {
      if (folder.substr(folder.find_last_of('/') + 1).starts_with(host_cgroup_prefix)) continue;
      const std::string text = text_of(folder + file);
      for (const std::string_view word : split(text, " \n"))
        if (const auto bytes = whole_number<std::uint64_t>(word))
          least = std::min(least.value_or(*bytes), *bytes);
    }
  }
  return least;
}

MemoryHere memory_here() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  const auto all = pages * static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  const std::optional<std::uint64_t> limit = memory_limit(kernel_text);
  if (limit.has_value() && *limit < all) return {*limit, true};
  return {all, false};
}

}  // namespace sluice
