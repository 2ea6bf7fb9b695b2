// The inside of a role host: makes what it is told to make, and runs it until its program is gone.
//
// Each channel has a thread, which runs one role instance; the main thread reads the control socket
// and runs no role, so it answers a ping whatever roles do. Thread: the process's main one. Errors:
// a wrong message and a lost connection end the process, with a line on standard error or with
// `lost_connection`.
#pragma once

#include <functional>

#include "roles/catalog.h"
#include "runtime/hosts/channel.h"

namespace sluice::hosts {

/// Gets the socket by which the process shares parts of checkpoints, before any role is made.
using TakeParts = std::function<void(OwnedFile)>;

/// The status with which the process is to end. Owns the socket.
int serve_host(const Catalog& catalog, int control, const TakeParts& take_parts = {});

/// The control socket of a host, wherever it is started.
inline constexpr int control_socket = 3;

}  // namespace sluice::hosts
