// Asks for parts of checkpoints that processes of this machine share, in one of them.
//
// Thread: any, several at once. Owns: its socket to the exchange (part_exchange.h), which goes with
// it or with the process. Errors: deadline (who was waited for), unavailable (nobody brings
// processes together any more, or no descriptors are left), corrupt (what is no answer).
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/owned_file.h"
#include "base/result.h"
#include "engine/checkpoint/weight_table.h"

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
  /// `patience`: how long it waits for another process that makes what it asks for.
  explicit PartClient(OwnedFile socket,
                      std::chrono::milliseconds patience = std::chrono::minutes(10))
      : socket_(std::move(socket)), patience_(patience) {}

  /// `what`: for people. Waits for who makes it; the first who asks makes it.
  Result<PartLease> ask(const PartKey& part, const std::string& what) const;

 private:
  const OwnedFile socket_;
  const std::chrono::milliseconds patience_;
};

}  // namespace sluice
