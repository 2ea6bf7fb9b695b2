// Cgroups of role hosts: folders in the kernel's tree, one for each process of a host, with the
// most memory that it and its children may take together.
//
// A folder is locked (flock) by the program that made it, so whoever comes later knows which were
// left by one that was killed, and removes those. Nothing outside folders of ours is written, but
// where this program is alone in a cgroup v2: then the memory controller is switched on for those
// below it, and off again at the end. Thread: one at a time for each object. Owns: what it makes.
// Units: bytes. Errors: unavailable, not_found, exhausted, with the kernel's reason.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/hosts/cgroup_rules.h"
#include "runtime/hosts/channel.h"

namespace sluice::hosts {

/// Where the kernel says what there is. Folders are made and removed by functions, for in those of
/// the kernel there are files at once, which go with them.
struct CgroupSystem {
  std::string cgroups = "/proc/self/cgroup";
  std::string mounts = "/proc/self/mountinfo";
  std::function<int(const char*)> make;    // empty: mkdir(2)
  std::function<int(const char*)> remove;  // empty: rmdir(2)
};

/// The cgroup of one process.
class Cgroup {
 public:
  /// Tries once to remove it, if it is there.
  ~Cgroup();
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  CgroupVersion version() const { return version_; }
  const std::string& folder() const { return folder_; }
  /// "0" in this file moves the process that writes it.
  int entrance() const { return entrance_.get(); }
  CgroupCounts counts() const;
  /// The most that was taken at once; 0: the kernel does not tell.
  std::uint64_t peak() const;
  /// Ends what is left in a host's, and removes it. False: not within that time.
  bool remove(std::chrono::milliseconds most);

 private:
  friend class Cgroups;
  Cgroup(CgroupVersion version, CgroupName::Kind kind, std::string folder, OwnedFile lock,
         CgroupSystem system)
      : version_(version),
        kind_(kind),
        folder_(std::move(folder)),
        lock_(std::move(lock)),
        system_(std::move(system)) {}

  const CgroupVersion version_;
  const CgroupName::Kind kind_;
  const std::string folder_;
  OwnedFile lock_, entrance_;
  const CgroupSystem system_;
  bool there_ = true;
};

/// The place at which a program makes the cgroups of its hosts. Thread: any.
class Cgroups {
 public:
  /// Finds the place and removes what programs that were killed have left there.
  static Result<std::shared_ptr<Cgroups>> open(CgroupSystem system = {});
  /// Requires: those that it made are gone.
  ~Cgroups();
  Cgroups(const Cgroups&) = delete;
  Cgroups& operator=(const Cgroups&) = delete;

  CgroupVersion version() const { return version_; }
  /// A cgroup that nobody is in.
  Result<std::unique_ptr<Cgroup>> make(std::uint64_t memory);

 private:
  Cgroups(CgroupVersion version, std::string base, CgroupSystem system)
      : version_(version), base_(std::move(base)), system_(std::move(system)) {}
  static Result<std::shared_ptr<Cgroups>> open(CgroupVersion version, const CgroupSystem& system);
  /// A new locked folder of ours.
  Result<std::unique_ptr<Cgroup>> make_folder(CgroupName::Kind kind);
  void sweep() const;
  Result<void> move_self();

  const CgroupVersion version_;
  const std::string base_;
  const CgroupSystem system_;
  std::unique_ptr<Cgroup> own_;  // in which this program stands, where it had to move
};

}  // namespace sluice::hosts
