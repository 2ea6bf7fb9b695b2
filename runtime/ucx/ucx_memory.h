// Memory that other machines read over UCX: by RDMA, and within a computer in memory that the
// reader maps. Never over tcp, where UCX ends an owner's process when its reader goes amid a read.
//
// One thread of its own does all that UCX does here but to make memory: it connects, reads, and
// waits in the kernel when there is nothing to do. UCX has no authentication, so without
// `trusted_devices` it gets no device, and reaches processes of this user on this computer only
// (docs/NETWORK.md). Keys are made with read access alone.
// Thread: any. Errors: unavailable; UCX is missing, or cannot do this here.
#pragma once

#include <memory>
#include <string>

#include "base/remote_memory.h"

namespace sluice {

struct UcxOptions {
  /// RDMA devices whose network reaches nobody but whom this process's memory is trusted with, as
  /// UCX names them ("mlx5_0:1"), with commas between. Empty: none.
  std::string trusted_devices{};
};

Result<std::unique_ptr<RemoteMemory>> make_ucx_memory(const UcxOptions& options);

}  // namespace sluice
