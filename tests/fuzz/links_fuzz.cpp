// Any bytes as parcels from another machine, before and after the handshake: refused with a reason,
// or a head that is written the same again; never more memory than the bounds.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/zmq/door.h"
#include "runtime/zmq/peer.h"

using namespace sluice;
using namespace sluice::links;
using namespace std::chrono_literals;

namespace {

PeerSettings settings(Origin self, bool dials) {
  PeerSettings made;
  made.self = self;
  made.machine = 3 - self.machine;
  made.dials = dials;
  made.lease = 3s;
  made.window_bytes = 1 << 20;
  made.cluster = "f";
  return made;
}

/// A peer that is connected to one that behaves, whose place the bytes then take.
class Fuzzed {
 public:
  explicit Fuzzed(bool dials) : peer_(settings({dials ? 2U : 1U, 1}, dials)) {
    Peer other(settings({dials ? 1U : 2U, 1}, !dials));
    Effects here, there;
    peer_.start(now, here);
    other.start(now, there);
    for (int turn = 0; turn < 4; ++turn) {
      for (const Effect& effect : std::exchange(here, {})) carry(effect, other, there);
      for (const Effect& effect : std::exchange(there, {})) carry(effect, peer_, here);
    }
    peer_.send({3 - (dials ? 2U : 1U), 1}, Channel::message, wire::Bytes(100), now, effects_);
    peer_.flush(now, effects_);
    effects_.clear();
  }
  void take(Connection connection, std::span<const std::byte> head,
            std::span<const std::byte> body) {
    const Result<Head> read = read_head(head);
    if (!read && read.error().message.empty()) __builtin_trap();
    if (read && !std::holds_alternative<OtherVersion>(*read) &&
        !std::ranges::equal(write_head(*read), head))
      __builtin_trap();
    static_cast<void>(door_.judge(read, std::nullopt));
    if (read)
      peer_.heard(connection, *read, wire::Bytes(body.begin(), body.end()), now, effects_);
    else
      peer_.heard_nonsense(connection, read.error().message, now, effects_);
    for (const Effect& effect : effects_)
      if (const Transmit* transmit = std::get_if<Transmit>(&effect))
        if (!read_head(transmit->head)) __builtin_trap();  // what we say can be read
    effects_.clear();
    if (peer_.owed() > (1 << 20)) __builtin_trap();
    peer_.tick(now, effects_);
  }

 private:
  static void carry(const Effect& effect, Peer& to, Effects& effects) {
    if (const Transmit* transmit = std::get_if<Transmit>(&effect))
      to.heard(transmit->connection, *read_head(transmit->head), {}, now, effects);
  }
  static constexpr Instant now = 1h;
  Peer peer_;
  Door door_{{1, 1}, false};
  Effects effects_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // First which side; then parcels: on which connection, the head's length, the body's length.
  std::span<const std::byte> left = std::as_bytes(std::span(data, size));
  if (left.empty()) return 0;
  Fuzzed fuzzed((left[0] & std::byte{1}) != std::byte{0});
  left = left.subspan(1);
  const auto next = [&](std::size_t wanted) {
    const auto part = left.first(std::min(wanted, left.size()));
    left = left.subspan(part.size());
    return part;
  };
  while (left.size() > 4) {
    const auto sizes = next(4);
    const Connection connection = 1 + (static_cast<Connection>(sizes[0]) & 1U);
    const auto head = next(static_cast<std::size_t>(sizes[1]));
    const auto body =
        next(static_cast<std::size_t>(sizes[2]) + (static_cast<std::size_t>(sizes[3]) << 8U));
    fuzzed.take(connection, head, body);
  }
  return 0;
}
