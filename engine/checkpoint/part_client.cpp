#include "engine/checkpoint/part_client.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = PartPacket::Kind;

/// False: the time is over.
bool wait_for(int socket, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd event{socket, POLLIN, 0};
    const int came = ::poll(&event, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (came > 0 || (came < 0 && errno != EINTR)) return true;
    if (came == 0 && Clock::now() >= until) return false;
  }
}

}  // namespace

Result<void> PartLease::made(const OwnedFile& memory) const {
  return send_packet(socket_.get(), {Kind::made, {}, {}}, memory.get());
}

Result<OwnedFile> PartClient::send_with_socket(const PartPacket& packet) const {
  auto sockets = packet_sockets();
  if (!sockets.ok()) return sockets.error();
  const OwnedFile theirs = std::move(sockets->second);
  if (Result<void> sent = send_packet(socket_.get(), packet, theirs.get()); !sent.ok())
    return sent.error();
  return std::move(sockets->first);
}

Result<OwnedFile> PartClient::join(const std::string& name) const {
  return send_with_socket({Kind::join, {}, name});
}

Result<PartLease> PartClient::ask(const PartKey& part, const std::string& what) const {
  const auto asked = Clock::now();
  Result<OwnedFile> socket = send_with_socket({Kind::ask, part, what});
  if (!socket.ok()) return socket.error();
  OwnedFile mine = std::move(socket).value();
  std::string maker;  // empty: nothing was heard yet
  for (;;) {
    const auto most = maker.empty() ? answered_ : patience_;
    if (!wait_for(mine.get(), asked + most)) {
      const std::string within = " within " + std::to_string(most.count()) + " ms";
      if (maker.empty())
        return Error{ErrorCode::unavailable, "who brings processes together says nothing" + within};
      return Error{ErrorCode::deadline, maker + " loads " + what + " and has not done so" + within};
    }
    auto answer = receive_packet(mine.get());
    if (!answer.ok()) return answer.error();
    if (!answer->has_value()) continue;
    ReceivedPacket& received = **answer;
    if (received.packet.kind == Kind::wait)
      maker = received.packet.text;
    else if (received.packet.kind == Kind::make || received.packet.kind == Kind::have)
      return PartLease(std::move(mine), std::move(received.with));
    else
      return Error{ErrorCode::corrupt, "an answer about parts of checkpoints that is none"};
  }
}

}  // namespace sluice
