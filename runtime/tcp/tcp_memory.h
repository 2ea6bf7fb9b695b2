// Memory that other machines read over TCP, through sockets of its own.
//
// Owns: a listener at one interface, some threads that answer readers straight from the regions'
// memory, and some that read others' regions into memory of the reads'. They sleep in the kernel
// when nothing moves. A reader proves the secret of its key, which is another one for each key;
// where the machines have keys all that crosses is encrypted and authenticated besides (AES-256-GCM
// under that secret). Without, only loopback addresses are taken (docs/NETWORK.md).
// A connection that breaks, is not made in time, or stands still amid reads ends them without
// bytes, and later reads of that region too. Thread: any.
// Bounds: connections of strangers, handshakes, requests that wait; each a constant beside it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/remote_memory.h"

namespace sluice {

struct TcpMemoryOptions {
  std::string host{};         // of this machine: the numeric address of one interface
  bool is_encrypted = false;  // the machines have keys, and so is what crosses
  unsigned threads = 0;       // of each side; 0: by the computer's cores
  unsigned connections = 0;   // to each region; 0: as many as threads
  std::chrono::nanoseconds handshake_most = std::chrono::seconds(3);
  /// A reader gives an owner up that has not sent another whole read, or 64 KiB of it, for so long.
  std::chrono::nanoseconds silence_most = std::chrono::seconds(5);
  /// An owner ends a reader that takes no byte of what it has asked for; it may do something else.
  std::chrono::nanoseconds reader_silence_most = std::chrono::seconds(30);
};

/// Errors: unavailable; there is no socket at the host. invalid_argument; the host is no numeric
/// address, or is none of this computer's alone and nothing is encrypted.
Result<std::unique_ptr<RemoteMemory>> make_tcp_memory(const TcpMemoryOptions& options);

}  // namespace sluice
