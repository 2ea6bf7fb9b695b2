// Ports of machines in one memory: what one sends the other has heard before `send` returns, but
// for what a test holds back or changes.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/peer_port.h"

namespace sluice {

class PeerHub {
 public:
  /// Of a message on its way: false drops it.
  std::function<bool(PeerLife from, PeerLife to, std::vector<std::byte>&)> on_way;

  class Port final : public PeerPort {
   public:
    Port(PeerHub& hub, PeerLife self, std::uint8_t secret) : hub_(hub), self_(self) {
      secret_.fill(secret);
    }
    PeerLife self() const override { return self_; }
    const std::array<std::uint8_t, 32>& secret() const override { return secret_; }
    bool open(std::uint64_t channel, Listener& listener) override {
      return hub_.open(*this, channel, listener);
    }
    void close(std::uint64_t channel) override { hub_.close(*this, channel); }
    using PeerPort::send;
    void send(std::uint64_t channel, PeerLife to, std::vector<std::byte> message) override {
      hub_.send(channel, self_, to, std::move(message));
    }
    void notice(std::uint32_t machine, const std::string& what) override {
      notices.emplace_back(machine, what);
    }

    std::vector<std::pair<std::uint32_t, std::string>> notices;

   private:
    PeerHub& hub_;
    PeerLife self_;
    std::array<std::uint8_t, 32> secret_{};
  };

  /// A machine more. The hub keeps it.
  Port& add(std::uint32_t machine, std::uint32_t life = 1, std::uint8_t secret = 7) {
    ports_.push_back(std::make_unique<Port>(*this, PeerLife{machine, life}, secret));
    return *ports_.back();
  }

 private:
  using Key = std::pair<std::uint64_t, PeerLife>;

  bool open(Port& port, std::uint64_t channel, PeerPort::Listener& listener) {
    if (!listeners_.emplace(Key{channel, port.self()}, &listener).second) return false;
    for (const auto& [key, other] : listeners_) {
      if (key.first != channel || key.second == port.self()) continue;
      other->joined(port.self());
      listener.joined(key.second);
    }
    return true;
  }
  void close(Port& port, std::uint64_t channel) {
    listeners_.erase({channel, port.self()});
    for (const auto& [key, other] : listeners_)
      if (key.first == channel) other->lost(port.self());
  }
  void send(std::uint64_t channel, PeerLife from, PeerLife to, std::vector<std::byte> message) {
    if (on_way && !on_way(from, to, message)) return;
    const auto it = listeners_.find({channel, to});
    if (it != listeners_.end()) it->second->arrived(from, std::move(message));
  }

  std::vector<std::unique_ptr<Port>> ports_;
  std::map<Key, PeerPort::Listener*> listeners_;
};

}  // namespace sluice
