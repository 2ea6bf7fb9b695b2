// Ports of machines in one memory: what one sends the other has heard before `send` returns, but
// for what a test holds back or changes.
#pragma once

#include <array>
#include <deque>
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
  /// The same of the end of one that stands elsewhere.
  std::function<void(PeerLife from, const Ref<Buffer>&)> on_body;

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
    void send(std::uint64_t channel, PeerLife to, std::vector<std::byte> message) override {
      if (on_send) on_send(message);
      hub_.send(channel, self_, to, std::move(message), {});
    }
    void send(std::uint64_t channel, PeerLife to, std::vector<std::byte> message,
              const Ref<Buffer>& body) override {
      hub_.send(channel, self_, to, std::move(message), body);
    }
    Ref<Buffer> make_body(PeerLife, std::size_t size) override {
      return shares_bodies ? Buffer::zeros(size) : Ref<Buffer>();
    }
    RemoteMemory* memory() override { return readable.get(); }
    bool preloads() const override { return does_preload; }
    void notice(std::uint32_t machine, const std::string& what) override {
      notices.emplace_back(machine, what);
    }

    std::vector<std::pair<std::uint32_t, std::string>> notices;
    std::function<void(const std::vector<std::byte>&)> on_send;  // before it; may throw
    bool does_preload = false;               // what others publish comes before it is asked for
    bool shares_bodies = false;              // the end of a message may stand elsewhere
    std::shared_ptr<RemoteMemory> readable;  // by the others; null: none is

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
    const bool was_delivering = std::exchange(is_delivering_, true);  // what is said now waits
    for (const auto& [key, other] : listeners_) {
      if (key.first != channel || key.second == port.self()) continue;
      other->joined(port.self());
      listener.joined(key.second);
    }
    is_delivering_ = was_delivering;
    deliver();
    return true;
  }
  void close(Port& port, std::uint64_t channel) {
    listeners_.erase({channel, port.self()});
    for (const auto& [key, other] : listeners_)
      if (key.first == channel) other->lost(port.self());
  }
  struct Message {
    std::uint64_t channel = 0;
    PeerLife from, to;
    std::vector<std::byte> bytes;
    Ref<Buffer> body;
  };

  void send(std::uint64_t channel, PeerLife from, PeerLife to, std::vector<std::byte> message,
            const Ref<Buffer>& body) {
    sent_.push_back({channel, from, to, std::move(message), body});
    deliver();
  }
  /// In the order in which they were sent, whoever sends more meanwhile.
  void deliver() {
    if (is_delivering_) return;
    is_delivering_ = true;
    while (!sent_.empty()) {
      Message one = std::move(sent_.front());
      sent_.pop_front();
      if (on_way && !on_way(one.from, one.to, one.bytes)) continue;
      if (one.body && on_body) on_body(one.from, one.body);
      const auto it = listeners_.find({one.channel, one.to});
      if (it == listeners_.end()) continue;
      if (one.body)
        it->second->arrived(one.from, std::move(one.bytes), one.body);
      else
        it->second->arrived(one.from, std::move(one.bytes));
    }
    is_delivering_ = false;
  }

  std::deque<Message> sent_;
  bool is_delivering_ = false;
  std::vector<std::unique_ptr<Port>> ports_;
  std::map<Key, PeerPort::Listener*> listeners_;
};

}  // namespace sluice
