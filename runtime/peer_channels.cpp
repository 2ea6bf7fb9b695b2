#include "runtime/peer_channels.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <thread>

#include "base/little_endian.h"
#include "runtime/link_renewal.h"

namespace sluice {

namespace {

constexpr unsigned number_bytes = 8;
/// Of a message whose end stands in memory that both have; no channel of a user's.
constexpr std::uint64_t lent_channel = std::numeric_limits<std::uint64_t>::max();

bool is_of_users(std::uint64_t channel) { return channel != 0 && channel != lent_channel; }
constexpr std::size_t channels_most = 1024;
constexpr std::size_t told_most = 256;

using Bytes = std::vector<std::byte>;

std::uint64_t number_at(std::span<const std::byte> words, std::size_t index) {
  return little_endian(words.subspan(index * number_bytes, number_bytes));
}

std::chrono::nanoseconds clock_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

class PeerChannels final : public PeerPort, private TransportListener {
 public:
  PeerChannels(std::unique_ptr<Transport> transport, PeerPortOptions options)
      : options_(std::move(options)),
        self_{options_.self.machine, options_.self.incarnation},
        link_life_(self_.incarnation),
        renewal_(self_.machine, options_.first_pause),
        transport_(std::move(transport)),
        thread_([this] { renew_links(); }) {
    transport_->start(*this);
  }
  ~PeerChannels() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      news_.notify_all();
    }
    thread_.join();
    if (transport_) transport_->stop();
  }

  PeerLife self() const override { return self_; }
  std::string name() const override {
    return self_.machine < options_.names.size() ? options_.names[self_.machine] : PeerPort::name();
  }
  const std::array<std::uint8_t, 32>& secret() const override { return options_.secret; }
  RemoteMemory* memory() override { return options_.memory.get(); }
  bool open(std::uint64_t channel, Listener& listener) override;
  void close(std::uint64_t channel) override;
  void send(std::uint64_t channel, PeerLife to, Bytes message) override;
  Ref<Buffer> make_body(PeerLife to, std::size_t size) override;
  void send(std::uint64_t channel, PeerLife to, Bytes message, const Ref<Buffer>& body) override;
  void notice(std::uint32_t machine, const std::string& what) override;
  IndexPort* index() override { return options_.index.get(); }
  bool preloads() const override { return options_.preloads; }

 private:
  struct Peer {
    PeerLife life;  // as users know it; incarnation 0: it has not said yet
    std::set<std::uint64_t> open;
  };

  void received(Origin from, Channel channel, MessageBytes given) override;
  void connected(Origin life) override;
  void silent(Origin life, const std::string& why) override;
  void refused(Origin by) override { silent(by, "it talks to us no more"); }

  void take_open(Origin from, std::span<const std::byte> words);
  /// Null: it is no memory of that life.
  Ref<Buffer> borrow(Origin from, Bytes& message, std::uint64_t& channel);
  bool is_its_life(Origin link, std::uint64_t life);
  void forget(Origin link);
  void tell_people(std::uint32_t machine, const std::string& about, const std::string& line);
  /// Under the lock.
  void announce(Origin to, bool is_new);
  void put_on_way(Origin to, Bytes message);

  void renew_links();
  void look_at_links(std::unique_lock<std::mutex>& lock);
  void begin_anew(std::unique_lock<std::mutex>& lock);

  const PeerPortOptions options_;
  const PeerLife self_;

  std::mutex mutex_;  // held while a listener is called
  std::condition_variable news_;
  std::map<std::uint64_t, Listener*> channels_;
  std::map<Origin, Peer> peers_;  // by the life of their links
  std::map<std::uint32_t, std::pair<Origin, std::uint64_t>> said_lives_;  // over its latest link
  std::uint32_t link_life_, over_ = 0;  // over: up to here others take none
  LinkRenewal renewal_;
  bool looks_ = false;  // somebody became silent
  bool is_over_ = false;

  std::mutex told_mutex_;
  // When people were told what of whom.
  std::map<std::pair<std::uint32_t, std::string>, std::chrono::nanoseconds> told_;

  // Taken by whoever sends, listeners too, so it is the last; alone by whoever changes these.
  std::shared_mutex way_;
  std::unique_ptr<Transport> transport_;  // null: it could not be begun anew yet
  std::map<PeerLife, Origin> links_;      // of those that have said who they are
  std::thread thread_;
};

bool PeerChannels::open(std::uint64_t channel, Listener& listener) {
  const std::lock_guard lock(mutex_);
  if (!is_of_users(channel) || !channels_.emplace(channel, &listener).second) return false;
  for (const auto& [link, peer] : peers_) {
    announce(link, false);
    if (peer.open.contains(channel)) listener.joined(peer.life);
  }
  return true;
}

void PeerChannels::close(std::uint64_t channel) {
  const std::lock_guard lock(mutex_);
  channels_.erase(channel);
  for (const auto& [link, peer] : peers_) announce(link, false);
}

void PeerChannels::announce(Origin to, bool is_new) {
  Bytes message;
  message.reserve(number_bytes * (3 + channels_.size()));
  const auto put = [&](std::uint64_t number) {
    append_little_endian(number, number_bytes, message);
  };
  put(is_new ? 1 : 0);
  put(self_.incarnation);
  for (const auto& [channel, listener] : channels_) put(channel);
  put(0);
  put_on_way(to, std::move(message));
}

void PeerChannels::put_on_way(Origin to, Bytes message) {
  const std::shared_lock way(way_);
  if (transport_) transport_->send(to, Channel::message, std::move(message));
}

void PeerChannels::send(std::uint64_t channel, PeerLife to, Bytes message) {
  append_little_endian(channel, number_bytes, message);
  const std::shared_lock way(way_);
  const auto link = links_.find(to);
  if (transport_ && link != links_.end())
    transport_->send(link->second, Channel::message, std::move(message));
}

Ref<Buffer> PeerChannels::make_body(PeerLife to, std::size_t size) {
  const std::shared_lock way(way_);
  wire::Lender* const lender = transport_ ? transport_->lender() : nullptr;
  const auto link = links_.find(to);
  const bool can = lender != nullptr && link != links_.end() && lender->reaches(to.machine);
  return can ? lender->make(size) : Ref<Buffer>();
}

void PeerChannels::send(std::uint64_t channel, PeerLife to, Bytes message,
                        const Ref<Buffer>& body) {
  const std::shared_lock way(way_);
  const auto link = links_.find(to);
  if (!transport_ || link == links_.end()) return;
  wire::Lender* const lender = transport_->lender();
  const std::optional<wire::Handle> handle =
      lender != nullptr ? lender->lend(link->second, body) : std::nullopt;
  if (handle) {
    for (const std::uint64_t number : {std::uint64_t{handle->slab}, std::uint64_t{handle->block},
                                       handle->generation, std::uint64_t{body->size()}, channel})
      append_little_endian(number, number_bytes, message);
    append_little_endian(lent_channel, number_bytes, message);
  } else {
    message.insert(message.end(), body->data(), body->data() + body->size());
    append_little_endian(channel, number_bytes, message);
  }
  transport_->send(link->second, Channel::message, std::move(message));
}

Ref<Buffer> PeerChannels::borrow(Origin from, Bytes& message, std::uint64_t& channel) {
  constexpr std::size_t numbers = 5;
  if (message.size() < numbers * number_bytes) return {};
  const std::size_t begin = message.size() - numbers * number_bytes;
  const std::span<const std::byte> words = std::span(message).subspan(begin);
  const std::uint64_t slab = number_at(words, 0), block = number_at(words, 1);
  const std::uint64_t size = number_at(words, 3);
  channel = number_at(words, 4);
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  if (!is_of_users(channel) || slab > most || block > most || size == 0) return {};
  const wire::Handle handle{static_cast<std::uint32_t>(slab), static_cast<std::uint32_t>(block),
                            number_at(words, 2)};
  message.resize(begin);
  const std::shared_lock way(way_);
  wire::Lender* const lender = transport_ ? transport_->lender() : nullptr;
  if (lender == nullptr) return {};
  Result<Ref<Buffer>> body = lender->borrow(from, handle, size);
  return body.ok() ? std::move(body).value() : Ref<Buffer>();
}

void PeerChannels::received(Origin from, Channel, MessageBytes given) {
  Bytes bytes = std::move(given).take();
  if (bytes.size() < number_bytes) return;
  std::uint64_t channel = little_endian(std::span(bytes).last(number_bytes));
  bytes.resize(bytes.size() - number_bytes);
  Ref<Buffer> body;  // given back wherever this returns
  if (channel == lent_channel) {
    body = borrow(from, bytes, channel);
    if (!body) return;
  }
  const std::lock_guard lock(mutex_);
  if (channel == 0) return take_open(from, bytes);
  const auto known = peers_.find(from);
  const auto listener = channels_.find(channel);
  if (known == peers_.end() || !known->second.open.contains(channel) || listener == channels_.end())
    return;
  if (body)
    listener->second->arrived(known->second.life, std::move(bytes), std::move(body));
  else
    listener->second->arrived(known->second.life, std::move(bytes));
}

/// Over one link it is one machine's life, whatever it says later.
bool PeerChannels::is_its_life(Origin link, std::uint64_t life) {
  // A link's life is never before the machine's.
  if (life == 0 || life > link.incarnation) return false;
  const auto [it, is_first] = said_lives_.try_emplace(link.machine, link, life);
  auto& [known, said] = it->second;
  if (!is_first && known == link) return said == life;
  known = link;
  said = life;
  return true;
}

/// Whether it was not connected, its life, and all that it has open now.
void PeerChannels::take_open(Origin from, std::span<const std::byte> words) {
  const std::size_t count = words.size() / number_bytes;
  if (words.size() % number_bytes != 0 || count < 2 || count > channels_most) return;
  const std::uint64_t life = number_at(words, 1);
  if (!is_its_life(from, life)) return;
  if (number_at(words, 0) != 0) {
    forget(from);
    announce(from, false);
  }
  Peer& peer = peers_[from];
  peer.life = {from.machine, static_cast<std::uint32_t>(life)};
  {
    const std::unique_lock way(way_);
    links_[peer.life] = from;
  }
  std::set<std::uint64_t> now;
  for (std::size_t i = 2; i < count; ++i) now.insert(number_at(words, i));
  for (const auto& [channel, listener] : channels_) {
    if (peer.open.contains(channel) && !now.contains(channel)) listener->lost(peer.life);
    if (!peer.open.contains(channel) && now.contains(channel)) listener->joined(peer.life);
  }
  peer.open = std::move(now);
}

void PeerChannels::connected(Origin life) {
  const std::lock_guard lock(mutex_);
  renewal_.met(life.machine);
  for (auto it = peers_.begin(); it != peers_.end();) {
    const Origin other = (it++)->first;
    if (other.machine == life.machine && other != life) forget(other);
  }
  peers_.try_emplace(life);
  announce(life, true);
}

void PeerChannels::silent(Origin life, const std::string& why) {
  tell_people(life.machine, "silent", "pages: " + why);
  const std::lock_guard lock(mutex_);
  forget(life);
  looks_ = true;  // by the other thread: the transport is asked why
  news_.notify_all();
}

void PeerChannels::forget(Origin link) {
  const auto it = peers_.find(link);
  if (it == peers_.end()) return;
  const Peer gone = std::move(it->second);
  peers_.erase(it);
  {
    const std::unique_lock way(way_);
    links_.erase(gone.life);
  }
  for (const auto& [channel, listener] : channels_)
    if (gone.open.contains(channel)) listener->lost(gone.life);
}

void PeerChannels::notice(std::uint32_t machine, const std::string& what) {
  const bool has_name = machine < options_.names.size();
  tell_people(machine, what,
              "pages: machine " +
                  (has_name ? "'" + options_.names[machine] + "'" : std::to_string(machine)) + ' ' +
                  what);
}

void PeerChannels::tell_people(std::uint32_t machine, const std::string& about,
                               const std::string& line) {
  const std::lock_guard lock(told_mutex_);
  const std::chrono::nanoseconds now = clock_now();
  std::erase_if(told_, [&](const auto& one) { return now - one.second > LinkRenewal::calm; });
  if (told_.size() == told_most || !told_.try_emplace({machine, about}, now).second) return;
  if (options_.notice) options_.notice(line);
}

void PeerChannels::renew_links() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (looks_) {
      look_at_links(lock);
      continue;
    }
    const std::optional<std::chrono::nanoseconds> due = renewal_.due();
    if (!due.has_value())
      news_.wait(lock);
    else if (*due > clock_now())
      news_.wait_for(lock, *due - clock_now());
    else
      begin_anew(lock);
  }
}

/// Of the machines that became silent, whose links have ended? The others come back by themselves.
void PeerChannels::look_at_links(std::unique_lock<std::mutex>& lock) {
  looks_ = false;
  lock.unlock();  // the transport may be calling its listener
  std::vector<LinkState> links;
  if (transport_) links = transport_->links();  // nobody but this thread replaces it
  lock.lock();
  // The machine may have come back, in its next life, since they were read.
  const auto is_back = [&](Origin ended) {
    return std::ranges::any_of(peers_, [&](const auto& known) {
      return known.first.machine == ended.machine && known.first.incarnation > ended.incarnation;
    });
  };
  for (const LinkState& link : links) {
    over_ = std::max(over_, link.refused_up_to);
    if (link.ended && !is_back(link.life)) renewal_.ended(link.life.machine, clock_now());
  }
}

/// In the next life, at the same address. Users hear that all are lost, and then join again.
void PeerChannels::begin_anew(std::unique_lock<std::mutex>& lock) {
  link_life_ = life_behind(link_life_, over_);
  const Origin next{self_.machine, link_life_};
  lock.unlock();
  if (transport_) transport_->stop();
  std::unique_ptr<Transport> last;  // its end takes a while, and nobody who sends waits for it
  {
    const std::unique_lock way(way_);
    last = std::move(transport_);
  }
  last.reset();
  lock.lock();
  while (!peers_.empty()) forget(peers_.begin()->first);
  lock.unlock();
  Result<std::unique_ptr<Transport>> made = options_.connect(next);
  if (made.ok()) {
    const std::unique_lock way(way_);
    transport_ = std::move(made).value();
  }
  if (made.ok())
    transport_->start(*this);
  else
    tell_people(self_.machine, "anew",
                "pages: the way to those of other machines cannot be begun anew, which is tried "
                "again: " +
                    made.error().message);
  lock.lock();
  renewal_.begun(clock_now(), made.ok());
}

}  // namespace

Result<std::unique_ptr<PeerPort>> make_peer_port(PeerPortOptions options) {
  Result<std::unique_ptr<Transport>> transport = options.connect(options.self);
  if (!transport.ok()) return transport.error();
  return std::unique_ptr<PeerPort>(
      std::make_unique<PeerChannels>(std::move(transport).value(), std::move(options)));
}

}  // namespace sluice
