// Sockets, and what waits for them: owned descriptors, and an epoll with a bell.
//
// Thread: one, but for `ring`, which is anybody's. Errors: unavailable, exhausted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/owned_file.h"
#include "base/result.h"
#include "runtime/tcp/tcp_key.h"

namespace sluice::tcp {

/// Listens at a port of the system's choice.
Result<OwnedFile> listen_at(const std::string& host, std::uint16_t& port);
/// None: there is no other connection, or (`can_wait`: false) no descriptor for it.
OwnedFile accept_at(const OwnedFile& listener, bool& can_wait);
/// A connection that is being made; it can be written to when it has been. None: it cannot be.
OwnedFile dial(const Endpoint& to);

/// What became of one call.
enum class Moved : std::uint8_t { some, none, ended };
/// As much as comes at once; `none`: nothing is there yet.
Moved receive(const OwnedFile& from, std::span<std::byte> to, std::size_t& bytes);
/// Into several places, one behind the other.
Moved receive(const OwnedFile& from, std::span<const std::span<std::byte>> to, std::size_t& bytes);
Moved send(const OwnedFile& to, std::span<const std::span<const std::byte>> pieces,
           std::size_t& bytes);

/// Waits for descriptors in the kernel.
class Waiter {
 public:
  struct Event {
    std::uint64_t number = 0;
    bool can_read = false, can_write = false;
  };
  static Result<std::unique_ptr<Waiter>> make();
  Waiter(OwnedFile all, OwnedFile bell) : all_(std::move(all)), bell_(std::move(bell)) {}

  /// `number`: not 0. It is removed by closing the descriptor.
  bool add(const OwnedFile& one, std::uint64_t number, bool reads, bool writes);
  void change(const OwnedFile& one, std::uint64_t number, bool reads, bool writes);
  /// Until one can be used, the bell rings, or so long has passed; negative: for ever. For `looks`
  /// of it, giving the processor up between looks, it does not sleep: to be woken takes as long.
  std::vector<Event> wait(std::chrono::nanoseconds most, std::chrono::nanoseconds looks = {});
  /// Until the bell rings, whatever else happens, or so long has passed. It rings on for `wait`.
  void wait_for_bell(std::chrono::nanoseconds most);
  void ring();

 private:
  OwnedFile all_, bell_;
};

}  // namespace sluice::tcp
