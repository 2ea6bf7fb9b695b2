#include "runtime/hosts/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::hosts {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int names_max = 64;          // tried for one folder
constexpr milliseconds to_sweep{500};  // for what one program has left
constexpr milliseconds between_tries{5};

/// The kernel's files are there or not: none is made.
Result<void> write_in(const std::string& path, const std::string& text) {
  const OwnedFile file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (file.get() >= 0 &&
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return {};
  return Error{ErrorCode::unavailable,
               "'" + text + "' could not be written to " + path + ": " + std::strerror(errno)};
}

bool may_write(const std::string& path, int mode = W_OK) {
  return ::access(path.c_str(), mode) == 0;
}

OwnCgroup look_at(CgroupVersion version, const std::string& folder) {
  OwnCgroup own;
  own.folder = folder;
  own.writable = may_write(folder, W_OK | X_OK);
  if (version == CgroupVersion::v1) {
    own.use_hierarchy = kernel_text(folder + "/memory.use_hierarchy");
    return own;
  }
  own.moves = may_write(folder + "/cgroup.procs") && may_write(folder + "/cgroup.subtree_control");
  own.type = kernel_text(folder + "/cgroup.type");
  own.controllers = kernel_text(folder + "/cgroup.controllers");
  own.subtree_control = kernel_text(folder + "/cgroup.subtree_control");
  own.processes = kernel_text(folder + "/cgroup.procs");
  const std::string above = folder.substr(0, folder.find_last_of('/'));
  own.parent_writable = may_write(above, W_OK | X_OK) && may_write(above + "/cgroup.procs");
  own.parent_subtree_control = kernel_text(above + "/cgroup.subtree_control");
  return own;
}

/// The number of this process' cgroup namespace: locks are not seen from one to another.
std::uint64_t own_space() {
  std::array<char, 64> link{};
  const ssize_t size = ::readlink("/proc/self/ns/cgroup", link.data(), link.size());
  const std::string_view text(link.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::size_t digits = text.find_first_of("0123456789");
  std::uint64_t number = 0;
  if (digits != text.npos) std::from_chars(text.data() + digits, text.data() + text.size(), number);
  return number;
}

/// The folder, locked. Nothing: it is somebody's, or gone.
std::optional<OwnedFile> lock(const std::string& folder) {
  OwnedFile opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat held {
  }, named{};
  // Whoever sweeps may have removed it before it was locked, and somebody made it anew.
  if (opened.get() < 0 || ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::fstat(opened.get(), &held) != 0 || ::stat(folder.c_str(), &named) != 0 ||
      held.st_ino != named.st_ino || held.st_dev != named.st_dev)
    return {};
  return opened;
}

/// Asks the kernel to end all that is in the folder, and waits that long for it.
void end_all(const std::string& folder, milliseconds most) {
  const std::string list = folder + "/cgroup.procs";
  std::vector<std::pair<pid_t, OwnedFile>> handles;
  for (const pid_t process : processes_in(kernel_text(list)))
    if (process > 0)
      handles.emplace_back(process,
                           OwnedFile(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))));
  // A number that was given to another process since is not in the list any more.
  const std::vector<pid_t> still = processes_in(kernel_text(list));
  std::vector<pollfd> events;
  for (const auto& [process, handle] : handles)
    if (handle.get() >= 0 && process != ::getpid() &&
        std::ranges::find(still, process) != still.end() &&
        ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0) == 0)
      events.push_back({handle.get(), POLLIN, 0});
  const auto until = steady_clock::now() + most;
  for (pollfd& event : events) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    ::poll(&event, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
}

}  // namespace

Cgroup::~Cgroup() { remove(milliseconds(0)); }

CgroupCounts Cgroup::counts() const {
  if (version_ == CgroupVersion::v2) return counts_v2(kernel_text(folder_ + "/memory.events"));
  return counts_v1(kernel_text(folder_ + "/memory.oom_control"),
                   kernel_text(folder_ + "/memory.failcnt"));
}

std::uint64_t Cgroup::peak() const {
  const std::string text = kernel_text(
      folder_ + (version_ == CgroupVersion::v2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  std::uint64_t bytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

bool Cgroup::remove(milliseconds most) {
  const auto until = steady_clock::now() + most;
  while (there_) {
    const int gone = system_.remove ? system_.remove(folder_.c_str()) : ::rmdir(folder_.c_str());
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (gone == 0 || errno == ENOENT) {
      there_ = false;
    } else if ((errno != EBUSY && errno != EINTR) || kind_ == CgroupName::Kind::program) {
      return false;
    } else {
      end_all(folder_, std::max(left, milliseconds(0)));
      if (left <= milliseconds(0)) return false;
      ::poll(nullptr, 0, static_cast<int>(std::min(left, between_tries).count()));
    }
  }
  lock_.close();
  entrance_.close();
  return true;
}

Result<std::shared_ptr<Cgroups>> Cgroups::open(CgroupSystem system) {
  Result<std::shared_ptr<Cgroups>> newer = open(CgroupVersion::v2, system);
  if (newer.ok()) return newer;
  Result<std::shared_ptr<Cgroups>> older = open(CgroupVersion::v1, system);
  if (older.ok()) return older;
  return Error{ErrorCode::unavailable, newer.error().message + "; " + older.error().message};
}

Result<std::shared_ptr<Cgroups>> Cgroups::open(CgroupVersion version, const CgroupSystem& system) {
  const Result<std::string> folder =
      own_cgroup(version, kernel_text(system.cgroups), kernel_text(system.mounts));
  if (!folder.ok()) return folder.error();
  const Result<CgroupWay> way = cgroup_way(version, look_at(version, *folder), ::getpid());
  if (!way.ok()) return way.error();
  const std::string base =
      *way == CgroupWay::beside ? folder->substr(0, folder->find_last_of('/')) : *folder;
  std::shared_ptr<Cgroups> made(new Cgroups(version, base, system));
  made->sweep();
  if (*way == CgroupWay::move)
    if (Result<void> moved = made->move_self(); !moved.ok()) return moved.error();
  return made;
}

Cgroups::~Cgroups() {
  if (own_ == nullptr) return;
  // Others that were started from here may have cgroups beside it.
  const std::vector<pid_t> processes = processes_in(kernel_text(own_->folder_ + "/cgroup.procs"));
  const bool alone =
      std::ranges::all_of(processes, [](pid_t process) { return process == ::getpid(); });
  if (alone && write_in(base_ + "/cgroup.subtree_control", "-memory").ok())
    (void)write_in(base_ + "/cgroup.procs", "0");
}

Result<void> Cgroups::move_self() {
  auto made = make_folder(CgroupName::Kind::program);
  if (!made.ok()) return made.error();
  if (Result<void> moved = write_in((*made)->folder_ + "/cgroup.procs", "0"); !moved.ok())
    return moved.error();
  if (Result<void> on = write_in(base_ + "/cgroup.subtree_control", "+memory"); !on.ok()) {
    (void)write_in(base_ + "/cgroup.procs", "0");
    return on.error();
  }
  own_ = std::move(made).value();
  return {};
}

void Cgroups::sweep() const {
  DIR* const opened = ::opendir(base_.c_str());
  if (opened == nullptr) return;
  std::vector<std::pair<CgroupName, std::string>> found;
  while (const dirent* const entry = ::readdir(opened))
    if (const auto name = cgroup_name(entry->d_name); name && name->space == own_space())
      found.emplace_back(*name, base_ + "/" + entry->d_name);
  ::closedir(opened);
  for (const auto& [name, folder] : found) {
    auto locked = lock(folder);
    if (!locked) continue;
    Cgroup(version_, name.kind, folder, std::move(*locked), system_).remove(to_sweep);
  }
}

Result<std::unique_ptr<Cgroup>> Cgroups::make_folder(CgroupName::Kind kind) {
  static std::atomic<std::uint64_t> number{0};
  CgroupName name{kind, own_space(), static_cast<std::uint64_t>(::getpid()), 0};
  for (int i = 0; i < names_max; ++i) {
    name.number = ++number;
    const std::string folder = base_ + "/" + text_of(name);
    const int made = system_.make ? system_.make(folder.c_str()) : ::mkdir(folder.c_str(), 0755);
    if (made != 0 && errno != EEXIST)
      return Error{ErrorCode::unavailable,
                   "'" + folder + "' could not be made: " + std::strerror(errno)};
    if (made != 0) continue;  // of a process with our number in another namespace
    // Otherwise somebody took it for one that was left.
    if (auto locked = lock(folder))
      return std::unique_ptr<Cgroup>(
          new Cgroup(version_, kind, folder, std::move(*locked), system_));
  }
  return Error{ErrorCode::exhausted, "no name for a cgroup is free in " + base_};
}

Result<std::unique_ptr<Cgroup>> Cgroups::make(std::uint64_t memory) {
  auto made = make_folder(CgroupName::Kind::host);
  if (!made.ok()) return made;
  Cgroup& cgroup = **made;
  for (const CgroupSetting& setting : cgroup_settings(version_, memory)) {
    Result<void> written = write_in(cgroup.folder_ + "/" + setting.file, setting.text);
    if (!written.ok() && setting.needed) return written.error();
  }
  const std::string entrance = cgroup.folder_ + "/cgroup.procs";
  cgroup.entrance_ = OwnedFile(::open(entrance.c_str(), O_WRONLY | O_CLOEXEC));
  if (cgroup.entrance_.get() < 0)
    return Error{ErrorCode::unavailable,
                 "'" + entrance + "' could not be opened: " + std::strerror(errno)};
  return made;
}

}  // namespace sluice::hosts
