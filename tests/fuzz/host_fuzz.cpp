// Any bytes as what a role host and its program say to each other: a message that is taken is
// written as the same bytes again, and a stream of them ends without a length beyond the limit.
//
// The first byte says what the others are: a control message, a request, a reply, a stream.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/hosts/channel.h"
#include "runtime/hosts/host_protocol.h"

using namespace sluice;

namespace {

void check_same(const wire::Bytes& again, std::span<const std::byte> bytes) {
  if (!std::ranges::equal(again, bytes)) __builtin_trap();
}

template <typename Message>
void check_message(const Result<Message>& message, std::span<const std::byte> bytes) {
  if (!message.ok()) {
    if (message.error().code != ErrorCode::corrupt || message.error().message.empty())
      __builtin_trap();
    return;
  }
  const Result<wire::Bytes> again = hosts::encode(*message);
  if (!again.ok()) __builtin_trap();
  check_same(*again, bytes);
}

void check_stream(std::span<const std::byte> bytes) {
  auto sockets = hosts::socket_pair(SOCK_STREAM);
  if (!sockets.ok()) std::abort();
  const ssize_t sent =
      ::send(sockets->first.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  sockets->first.close();
  hosts::Channel channel(std::move(sockets->second));
  std::size_t taken = 0;
  for (;;) {
    const Result<wire::Bytes> body = channel.receive();
    if (!body.ok()) break;
    taken += 4 + body->size();
  }
  if (taken > bytes.size() || (sent >= 0 && taken > static_cast<std::size_t>(sent)))
    __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {
      const auto control = hosts::decode_control(bytes);
      if (control.ok()) check_same(hosts::encode(*control), bytes);
      break;
    }
    case 1:
      check_message(hosts::decode_request(bytes), bytes);
      break;
    case 2:
      check_message(hosts::decode_reply(bytes), bytes);
      break;
    default:
      check_stream(bytes.first(std::min<std::size_t>(bytes.size(), 32 << 10)));
  }
  return 0;
}
