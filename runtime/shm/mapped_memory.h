// Memory that other processes of this computer map and read where it stands, with one copy.
//
// Owns: a unix socket, and a thread at it that hands a region's memory, to be read only, to whoever
// is of this user and shows the secret of the region's key; a thread that asks others for theirs;
// and some that copy out of what was handed over. They sleep in the kernel when nothing moves. A
// connection stays as long as the region does: its end says that the owner, or its region, is gone,
// and ends reads without bytes, later ones too. What was mapped then goes back to the system.
// Thread: any. Bounds: connections, strangers among them, and keys; each a constant beside it.
// Source: docs/POOL.md, "Pages that are read where they stand".
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/remote_memory.h"

namespace sluice {

struct MappedMemoryOptions {
  /// Its path: absolute, in a folder that only this user enters, which the caller checks.
  std::string socket{};
  unsigned threads = 0;  // that copy; 0: by the computer's cores
  std::chrono::nanoseconds handshake_most = std::chrono::seconds(3);
};

/// Errors: unavailable; memory or the socket cannot be had here.
Result<std::unique_ptr<RemoteMemory>> make_mapped_memory(const MappedMemoryOptions& options);

}  // namespace sluice
