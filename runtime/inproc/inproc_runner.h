// A `Runner` over a driver of this process, whose other machines may be elsewhere.
//
// Thread: as the runner's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/inproc/driver.h"
#include "runtime/inproc/role_host.h"
#include "runtime/runner.h"

namespace sluice {

/// Hears the number of a session that has ended. Empty: nobody wants to know.
using SessionEnded = std::function<void(std::uint64_t session)>;

std::unique_ptr<Runner> make_runner(std::shared_ptr<RoleHost> host, std::shared_ptr<Driver> driver,
                                    const Graph& graph, const Catalog& catalog,
                                    SessionEnded session_ended);

}  // namespace sluice
