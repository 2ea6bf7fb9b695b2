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
#include "runtime/zmq/stream_forwarder.h"

namespace sluice::cli {

/// Forwards the registry to the other machines, where this one is said to; before any of them, this
/// one too, has entered. Null: it is not. Errors: an address that cannot be bound, keys that are
/// not there.
Result<std::unique_ptr<StreamForwarder>> begin_forwarding(
    const Cluster& cluster, std::uint32_t machine,
    const std::function<void(const LinkNotice&)>& notice);

/// Begins to enter; never waits. Null: the cluster has no registry.
/// `fenced` and `notice`: as in RegistryOptions.
/// Errors: an address that is none; a password that cannot be read; keys that are not there.
Result<std::unique_ptr<RegistryKeeper>> begin_entry(const Cluster& cluster, std::uint32_t machine,
                                                    std::function<void(const std::string&)> fenced,
                                                    std::function<void(const std::string&)> notice);

/// Where the machines of the cluster say which pages they have: the registry's server, reached the
/// same way. Never waits.
std::unique_ptr<IndexPort> begin_index(const RegistryKeeper& registry,
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
