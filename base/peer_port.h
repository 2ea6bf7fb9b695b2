// Messages between a part of this process and its like on other machines, beside the frames.
//
// Each part has a channel, whose number is the same everywhere. A message arrives once and in
// order, or the machine's life is told to be lost. Who a message is from is what the link's
// handshake has proved. Thread: `send` from any, and never blocks; `open` and `close` by the
// part's owner; a listener is called by several threads, `open`'s caller among them, under
// one lock: one call at a time.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/index_port.h"
#include "base/remote_memory.h"

namespace sluice {

/// One life of a machine.
struct PeerLife {
  std::uint32_t machine = 0;
  std::uint32_t incarnation = 0;
  auto operator<=>(const PeerLife&) const = default;
};

/// Nothing of a null.
inline std::span<const std::byte> bytes_of(const Ref<Buffer>& buffer) {
  return buffer ? std::span<const std::byte>(buffer->data(), buffer->size())
                : std::span<const std::byte>();
}

class PeerPort {
 public:
  /// Must return soon.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// It can be sent to. Lives of one machine come one after the other.
    virtual void joined(PeerLife peer) = 0;
    /// Nothing more comes from it until it has joined again.
    virtual void lost(PeerLife peer) = 0;
    virtual void arrived(PeerLife peer, std::vector<std::byte> message) = 0;
    /// One whose end stands in memory that both machines have, and may only be read there.
    virtual void arrived(PeerLife peer, std::vector<std::byte> message, Ref<Buffer> body) {
      message.insert(message.end(), body->data(), body->data() + body->size());
      arrived(peer, std::move(message));
    }
  };

  virtual ~PeerPort() = default;
  virtual PeerLife self() const = 0;
  /// This machine's, for people and what it keeps on its disk.
  virtual std::string name() const { return std::to_string(self().machine); }
  /// What all machines of the cluster know, and nobody else.
  virtual const std::array<std::uint8_t, 32>& secret() const = 0;
  /// Tells who is there already. False: the channel is taken.
  virtual bool open(std::uint64_t channel, Listener& listener) = 0;
  /// The listener is not called any more when this has returned.
  virtual void close(std::uint64_t channel) = 0;
  /// Dropped when that life is lost, or has not opened the channel.
  virtual void send(std::uint64_t channel, PeerLife to, std::vector<std::byte> message) = 0;
  /// Memory for the end of a message to a machine of this computer, which reads it where it stands;
  /// it holds anything at first. Null: there is none, the end goes in the message.
  virtual Ref<Buffer> make_body(PeerLife to, std::size_t size) {
    static_cast<void>(to);
    static_cast<void>(size);
    return {};
  }
  /// A message that ends with these bytes, which are not written any more.
  virtual void send(std::uint64_t channel, PeerLife to, std::vector<std::byte> message,
                    const Ref<Buffer>& body) {
    message.insert(message.end(), body->data(), body->data() + body->size());
    send(channel, to, std::move(message));
  }
  /// Memory that the other machines can read by themselves. Null: they cannot.
  virtual RemoteMemory* memory() { return nullptr; }
  /// Whether pages that others publish are to be here before anybody asks for them.
  virtual bool preloads() const { return false; }
  /// Where machines say which pages they have. Null: nowhere.
  virtual IndexPort* index() { return nullptr; }
  /// For people, of that machine; what was said of it lately is not said again. Thread: any, a
  /// listener's too.
  virtual void notice(std::uint32_t machine, const std::string& what) = 0;
};

}  // namespace sluice
