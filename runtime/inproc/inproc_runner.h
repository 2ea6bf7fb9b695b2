// A `Runner` over a driver of this process, whose other machines may be elsewhere.
//
// Thread: as the runner's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/declaration.h"
#include "runtime/inproc/driver.h"
#include "runtime/inproc/role_host.h"
#include "runtime/runner.h"

namespace sluice {

/// Hears the number of a session that has ended. Empty: nobody wants to know.
using SessionEnded = std::function<void(std::uint64_t session)>;

/// For each input of the workflow the ports that read it, under the input's name.
using InputPorts = std::vector<std::vector<Port>>;
InputPorts input_ports(const WorkflowSpec& spec, const Plan& plan, const Catalog& catalog);

/// `name_end`: of all its sessions' names, as roles know them.
std::unique_ptr<Runner> make_runner(std::shared_ptr<RoleHost> host, std::shared_ptr<Driver> driver,
                                    InputPorts ports, SessionEnded session_ended,
                                    std::string name_end);

}  // namespace sluice
