#include "cli/running.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/lock_file.h"
#include "cli/machine_status.h"
#include "graph/print.h"
#include "runtime/registry/registration.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// The names in a folder, sorted. Empty where it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// Nothing: it is not there. Errors: it is not this user's alone.
Result<bool> is_own_folder(const std::string& folder) {
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0) {
    if (errno == ENOENT) return false;
    return Error{ErrorCode::unavailable, folder + ": " + std::strerror(errno)};
  }
  if (facts.st_uid != ::getuid())
    return Error{ErrorCode::unavailable, folder + ": it belongs to user " +
                                             std::to_string(facts.st_uid) + ", this is user " +
                                             std::to_string(::getuid())};
  if (!S_ISDIR(facts.st_mode) || (facts.st_mode & 077) != 0)
    return Error{ErrorCode::unavailable, folder + ": it is no folder of mode 0700"};
  return true;
}

/// As `base_folder` of cli/cluster.cpp takes it.
const char* runtime_folder_words() {
  const char* const given = std::getenv("XDG_RUNTIME_DIR");
  if (given == nullptr) return "XDG_RUNTIME_DIR decides where that is, and is not set here";
  if (given[0] == '/') return "XDG_RUNTIME_DIR decides where that is, and is set here";
  return "XDG_RUNTIME_DIR would decide where that is, and is no absolute path here";
}

int rank(const ClusterPlace& place, const RunningProcess& process) {
  if (process.machine.empty()) return 1;
  if (!place.is_read()) return 2;  // nobody knows which is the home
  const auto is_it = [&](const ClusterMachine& machine) {
    return machine.home && machine.name.text == process.machine;
  };
  return std::ranges::any_of(place.spec.machines, is_it) ? 0 : 2;
}

}  // namespace

std::string people_name(const std::string& machine) {
  return machine.empty() ? "`sluice up`" : "machine '" + printable(machine) + "'";
}

ClusterPlace read_cluster_place(const std::string& file) {
  ClusterPlace place{{}, cluster_folder(file)};
  place.spec.file = file;
  if (const Result<void> kind = check_is_cluster(file); !kind.ok()) {
    fail(kind.error().message);
    return place;
  }
  Result<LoadedCluster> loaded = load_cluster_file(file);
  if (!loaded.ok()) {
    fail(loaded.error().message);
    return place;
  }
  if (has_errors(loaded->diagnostics)) {
    sort_diagnostics(loaded->diagnostics);
    std::fputs(diagnostics_text(loaded->diagnostics, file, loaded->text).c_str(), stderr);
    return place;
  }
  place.spec = std::move(loaded->spec);
  return place;
}

Result<std::vector<RunningProcess>> find_running(const ClusterPlace& place) {
  const Error nobody{ErrorCode::not_found, "no process of " + place.spec.file +
                                               " runs here as this user, by " + place.folder +
                                               " (" + runtime_folder_words() + "); `sluice up " +
                                               place.spec.file + "` starts them"};
  for (const std::string& folder : {fs::path(place.folder).parent_path().string(), place.folder}) {
    const Result<bool> own = is_own_folder(folder);
    if (!own.ok()) return own.error();
    if (!*own) return nobody;
  }
  std::vector<RunningProcess> running;
  for (const std::string& name : names_in(place.folder)) {
    if (!name.ends_with(".status")) continue;
    Result<StatusReader> reader = StatusReader::connect(place.folder + "/" + name);
    if (!reader.ok() && reader.error().code == ErrorCode::not_found) continue;
    // Behind the connection: whoever listens has written its number before.
    const std::string lock = place.folder + "/" + name.substr(0, name.find('.')) + ".lock";
    const std::optional<LockHolder> holder = lock_holder(lock);
    if (!holder) continue;  // it has just ended
    RunningProcess process{holder->name, holder->pid, lock, {}, {}};
    if (reader.ok())
      process.reader.emplace(std::move(reader).value());
    else
      process.silent = reader.error().message;
    running.push_back(std::move(process));
  }
  if (running.empty()) return nobody;
  std::vector<int> ranks;
  for (const RunningProcess& process : running) ranks.push_back(rank(place, process));
  std::vector<RunningProcess> sorted;
  for (int wanted = 0; wanted < 3; ++wanted)
    for (std::size_t i = 0; i < running.size(); ++i)
      if (ranks[i] == wanted) sorted.push_back(std::move(running[i]));
  return sorted;
}

Result<int> open_process(const RunningProcess& process) {
  const std::string who = "process " + std::to_string(process.pid);
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  if (handle < 0 && errno != ESRCH)
    return Error{ErrorCode::unavailable, who + ": " + std::strerror(errno)};
  // Had it died before and its number gone to another, it would not hold its lock any more.
  const std::optional<LockHolder> holder = lock_holder(process.lock);
  if (handle >= 0 && holder && holder->pid == process.pid) return handle;
  if (handle >= 0) ::close(handle);
  return Error{ErrorCode::not_found, who + " is gone"};
}

std::size_t remove_leftovers(const ClusterPlace& place) {
  const std::vector<std::string> names = names_in(place.folder);
  std::size_t removed = 0;
  for (const std::string& name : names) {
    if (name == shared_secret_name) continue;  // goes with the folder
    const std::string before_dot = name.substr(0, name.find('.'));
    // The registry's server belongs to whoever starts the machines.
    const std::string stem = before_dot == "registry" ? "up" : before_dot;
    const Result<LockFile> lock = LockFile::take(place.folder + "/" + stem + ".lock");
    if (!lock.ok()) continue;  // its owner lives
    if (name.ends_with(".lock") || ::unlink((place.folder + "/" + name).c_str()) == 0) ++removed;
  }
  leave_cluster_folder(place.folder);
  return removed;
}

std::vector<std::string> held_locks(const ClusterPlace& place) {
  std::vector<std::string> held;
  for (const std::string& name : names_in(place.folder))
    if (name.ends_with(".lock") && is_locked(place.folder + "/" + name))
      held.push_back(
          people_name(lock_holder(place.folder + "/" + name).value_or(LockHolder{}).name));
  return held;
}

}  // namespace sluice::cli
