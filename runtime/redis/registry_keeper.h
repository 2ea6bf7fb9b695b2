// Keeps this process's entry in the cluster's registry, on a connection and a thread of its own.
//
// What to ask is decided by `Registration`. Nothing waits for the registry but `wait_for_entry`.
// Thread: all of it from any. Owns: its thread. Source: runtime/registry/registration.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/redis/redis_link.h"
#include "runtime/registry/registration.h"

namespace sluice {

struct RegistryOptions {
  RedisAddress address;
  std::string shown;                // the address, for people
  std::optional<RedisLogin> login;  // on each connection
  RegistrationSettings entry;
  /// Told once when another process has become this machine. Thread: the keeper's.
  std::function<void(const std::string& why)> fenced;
  /// Takes a line when the entry lapses and when it holds again. Thread: the keeper's.
  std::function<void(const std::string&)> notice;
};

class RegistryKeeper {
 public:
  static std::unique_ptr<RegistryKeeper> create(RegistryOptions options);
  /// Gives the name back where the registry answers at once.
  virtual ~RegistryKeeper() = default;

  /// The incarnation that this process has. Errors: deadline or stale (fenced), with the reason.
  virtual Result<std::uint32_t> wait_for_entry(std::chrono::milliseconds patience) = 0;
  /// This process has begun a later life in place.
  virtual void raise(std::uint32_t incarnation) = 0;
  virtual RegistryStanding standing() const = 0;
  /// Nothing: the entry holds, and calls may begin. Errors: unavailable, stale; named.
  virtual Result<void> may_begin() const = 0;
  /// As it was made with, for whoever asks the same server for something else.
  virtual const RegistryOptions& options() const = 0;
};

/// Of this process alone, of all processes of all machines.
std::string new_registry_token();

}  // namespace sluice
