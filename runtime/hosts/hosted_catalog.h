// A catalog whose plugins make some roles in hosts of their own, and the others as before.
//
// Which roles and global parameters belong to which host goes by their names. A parameter whose
// roles are in several processes is one in each of them, over what this one shares with them
// (`CommonParam`). Errors: of the split, in words for whoever wrote it: roles that share an
// executor, or a parameter of a kind that is of one process, share memory.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/spec.h"
#include "graph/together.h"
#include "roles/catalog.h"
#include "runtime/hosts/host_process.h"

namespace sluice::hosts {

/// In place of what the options of all hosts say, where something stands here.
struct HostLimits {
  std::uint64_t memory = 0;  // bytes, by a cgroup where one can be made
  std::optional<std::chrono::milliseconds> hang_after = {};
  std::vector<std::uint32_t> cores = {};
};

struct HostGroup {
  std::string name;  // empty: these roles are in this process, and those in no group elsewhere
  std::vector<std::string> roles;
  HostLimits limits = {};
  std::string together = {};  // why roles of it that were named one by one are in one process
};

/// A host of a catalog, and who is in it.
struct HostReport {
  HostStatus status;
  std::vector<std::string> roles;
};

/// What makes roles, and how the hosts are in which they are; of a host whose first role is not
/// made yet, or that has gone with its last, nothing is said. `report`: any thread.
struct HostedCatalog {
  Catalog catalog;
  std::function<std::vector<HostReport>()> report;
};

/// A host for each role that is named, and one for those that must be together; `all` alone means
/// all roles, those over one parameter together. Errors: not_found, invalid_argument.
Result<std::vector<HostGroup>> isolate(std::span<const WorkflowSpec* const> workflows,
                                       std::span<const std::string> roles,
                                       const WhyInOneProcess& why_in_one = {});

/// Borrows the specs while it is called. Each host's process starts with its first role and ends
/// with its last. `options`: of all hosts. `system`: where cgroups are looked for, as soon as a
/// host has a limit of memory.
HostedCatalog host_roles(const Catalog& catalog, std::span<const WorkflowSpec* const> workflows,
                         const std::vector<HostGroup>& groups, const HostOptions& options,
                         const CgroupSystem& system = {});

}  // namespace sluice::hosts
