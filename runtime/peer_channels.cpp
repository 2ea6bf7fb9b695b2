#include "runtime/peer_channels.h"

#include <map>
#include <mutex>
#include <set>
#include <span>

namespace sluice {

namespace {

constexpr std::size_t number_bytes = 8;
constexpr std::size_t channels_most = 1024;

using Bytes = std::vector<std::byte>;

void put_number(std::uint64_t number, std::byte* to) {
  for (unsigned i = 0; i < number_bytes; ++i) to[i] = static_cast<std::byte>(number >> (8 * i));
}

std::uint64_t number_at(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  for (unsigned i = 0; i < number_bytes; ++i)
    number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return number;
}

class PeerChannels final : public PeerPort, private TransportListener {
 public:
  PeerChannels(std::unique_ptr<Transport> transport, Origin self,
               const std::array<std::uint8_t, 32>& secret)
      : transport_(std::move(transport)), self_(self), secret_(secret) {
    transport_->start(*this);
  }
  ~PeerChannels() override { transport_->stop(); }

  PeerLife self() const override { return {self_.machine, self_.incarnation}; }
  const std::array<std::uint8_t, 32>& secret() const override { return secret_; }
  bool open(std::uint64_t channel, Listener& listener) override;
  void close(std::uint64_t channel) override;
  void send(std::uint64_t channel, PeerLife to, Bytes message) override;

 private:
  void received(Origin from, Channel channel, Bytes bytes) override;
  void connected(Origin life) override;
  void silent(Origin life, const std::string& why) override;
  void refused(Origin by) override { silent(by, "it talks to us no more"); }

  void take_open(PeerLife from, std::span<const std::byte> channels);
  void forget(PeerLife peer);
  /// Under the lock.
  void announce(PeerLife to, bool is_new);

  const std::unique_ptr<Transport> transport_;
  const Origin self_;
  const std::array<std::uint8_t, 32> secret_;
  std::mutex mutex_;  // held while a listener is called
  std::map<std::uint64_t, Listener*> channels_;
  std::map<PeerLife, std::set<std::uint64_t>> peers_;  // and what they have open
};

bool PeerChannels::open(std::uint64_t channel, Listener& listener) {
  const std::lock_guard lock(mutex_);
  if (channel == 0 || !channels_.emplace(channel, &listener).second) return false;
  for (const auto& [peer, open] : peers_) {
    announce(peer, false);
    if (open.contains(channel)) listener.joined(peer);
  }
  return true;
}

void PeerChannels::close(std::uint64_t channel) {
  const std::lock_guard lock(mutex_);
  channels_.erase(channel);
  for (const auto& [peer, open] : peers_) announce(peer, false);
}

void PeerChannels::announce(PeerLife to, bool is_new) {
  Bytes message(number_bytes * (2 + channels_.size()));
  std::size_t at = 0;
  const auto put = [&](std::uint64_t number) {
    put_number(number, message.data() + at);
    at += number_bytes;
  };
  put(is_new ? 1 : 0);
  for (const auto& [channel, listener] : channels_) put(channel);
  put(0);
  transport_->send({to.machine, to.incarnation}, Channel::message, std::move(message));
}

void PeerChannels::send(std::uint64_t channel, PeerLife to, Bytes message) {
  const std::size_t size = message.size();
  message.resize(size + number_bytes);
  put_number(channel, message.data() + size);
  transport_->send({to.machine, to.incarnation}, Channel::message, std::move(message));
}

void PeerChannels::received(Origin from, Channel, Bytes bytes) {
  if (bytes.size() < number_bytes) return;
  const PeerLife peer{from.machine, from.incarnation};
  const std::uint64_t channel = number_at(std::span(bytes).last(number_bytes));
  bytes.resize(bytes.size() - number_bytes);
  const std::lock_guard lock(mutex_);
  if (channel == 0) return take_open(peer, bytes);
  const auto known = peers_.find(peer);
  const auto listener = channels_.find(channel);
  if (known == peers_.end() || !known->second.contains(channel) || listener == channels_.end())
    return;
  listener->second->arrived(peer, std::move(bytes));
}

/// All that it has open now.
void PeerChannels::take_open(PeerLife from, std::span<const std::byte> channels) {
  const std::size_t count = channels.size() / number_bytes;
  if (channels.size() % number_bytes != 0 || count == 0 || count > channels_most) return;
  if (number_at(channels) != 0) {
    forget(from);
    announce(from, false);
  }
  std::set<std::uint64_t>& open = peers_[from];
  std::set<std::uint64_t> now;
  for (std::size_t i = 1; i < count; ++i) now.insert(number_at(channels.subspan(i * number_bytes)));
  for (const auto& [channel, listener] : channels_) {
    if (open.contains(channel) && !now.contains(channel)) listener->lost(from);
    if (!open.contains(channel) && now.contains(channel)) listener->joined(from);
  }
  open = std::move(now);
}

void PeerChannels::connected(Origin life) {
  const std::lock_guard lock(mutex_);
  const PeerLife peer{life.machine, life.incarnation};
  for (auto it = peers_.begin(); it != peers_.end();) {
    const PeerLife other = (it++)->first;
    if (other.machine == peer.machine && other != peer) forget(other);
  }
  peers_.try_emplace(peer);
  announce(peer, true);
}

void PeerChannels::silent(Origin life, const std::string&) {
  const std::lock_guard lock(mutex_);
  forget({life.machine, life.incarnation});
}

void PeerChannels::forget(PeerLife peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  const std::set<std::uint64_t> open = std::move(it->second);
  peers_.erase(it);
  for (const auto& [channel, listener] : channels_)
    if (open.contains(channel)) listener->lost(peer);
}

}  // namespace

std::unique_ptr<PeerPort> make_peer_port(std::unique_ptr<Transport> transport, Origin self,
                                         const std::array<std::uint8_t, 32>& secret) {
  return std::make_unique<PeerChannels>(std::move(transport), self, secret);
}

}  // namespace sluice
