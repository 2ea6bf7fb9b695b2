// A machine's entry in the registry of its cluster file, where it names one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/cluster.h"
#include "runtime/redis/index_keeper.h"
#include "runtime/redis/registry_keeper.h"

namespace sluice::cli {

/// Begins to enter; never waits. Null: the cluster has no registry.
/// `fenced` and `notice`: as in RegistryOptions.
/// Errors: an address that is none; a password that cannot be read.
Result<std::unique_ptr<RegistryKeeper>> begin_entry(const Cluster& cluster, std::uint32_t machine,
                                                    std::function<void(const std::string&)> fenced,
                                                    std::function<void(const std::string&)> notice);

/// Where the machines of the cluster say which pages they have: the registry's server. Never waits.
/// Null: the cluster has no registry. Errors: as `begin_entry`.
Result<std::unique_ptr<IndexPort>> begin_index(const Cluster& cluster,
                                               std::function<void(const std::string&)> notice);

/// Until the registry lets it in. `told_to_end` is asked often.
/// Errors: cancelled; why the registry does not, within `patience`.
Result<void> wait_for_entry(RegistryKeeper& registry, std::chrono::milliseconds patience,
                            const std::function<bool()>& told_to_end);

/// The command of the private server. Empty: the cluster file asks for none.
/// Errors: it is not installed.
Result<std::vector<std::string>> registry_command(const Cluster& cluster);
/// Where it listens.
std::string registry_socket(const Cluster& cluster);

}  // namespace sluice::cli
