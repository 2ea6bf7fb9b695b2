// Asks for parts of checkpoints that several processes share, in one of them.
//
// Thread: any, several at once. Owns: its socket to the exchange (part_exchange.h), which goes with
// it or with the process. Errors: deadline (who was waited for), unavailable (who brings processes
// together is gone or stands still, or no descriptors are left), corrupt (what is no answer).
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/owned_file.h"
#include "base/result.h"
#include "engine/checkpoint/part_packets.h"

namespace sluice {

/// A part is kept for this process as long as its lease is there.
class PartLease {
 public:
  PartLease(OwnedFile socket, OwnedFile memory)
      : socket_(std::move(socket)), memory_(std::move(memory)) {}
  /// Another has made the part; else this process is to make it.
  bool is_there() const { return memory_.get() >= 0; }
  const OwnedFile& memory() const { return memory_; }
  /// The lease goes on without its descriptor.
  OwnedFile take_memory() { return std::move(memory_); }
  /// Hands on what this process has made; sealed.
  Result<void> made(const OwnedFile& memory) const;

 private:
  OwnedFile socket_, memory_;
};

class PartClient {
 public:
  /// `patience`: how long it waits for another process that makes what it asks for; `answered`: for
  /// the exchange's first word, which comes at once unless that stands still.
  explicit PartClient(OwnedFile socket,
                      std::chrono::milliseconds patience = std::chrono::minutes(10),
                      std::chrono::milliseconds answered = std::chrono::seconds(2))
      : socket_(std::move(socket)), patience_(patience), answered_(answered) {}

  /// `what`: for people. Waits for who makes it; the first who asks makes it.
  Result<PartLease> ask(const PartKey& part, const std::string& what) const;
  /// A socket for a process that this one starts: it takes part as that name "of" this one's.
  Result<OwnedFile> join(const std::string& name) const;

 private:
  /// This end of the socket whose other one goes with the packet.
  Result<OwnedFile> send_with_socket(const PartPacket& packet) const;

  const OwnedFile socket_;
  const std::chrono::milliseconds patience_, answered_;
};

}  // namespace sluice
