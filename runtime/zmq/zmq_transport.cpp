#include "runtime/zmq/zmq_transport.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/bell.h"
#include "base/failpoint.h"
#include "runtime/shm/packets.h"
#include "runtime/shm/shared_memory.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/check_options.h"
#include "runtime/zmq/door.h"
#include "runtime/zmq/ipc_socket.h"
#include "runtime/zmq/peer.h"
#include "runtime/zmq/sockets.h"

namespace sluice {

namespace {

using namespace std::chrono_literals;
using links::Connection;
using links::Instant;

static_assert(links::message_bytes_max == zmq_message_bytes_max);

constexpr std::size_t parcels_a_turn = 64;    // of one socket, before the others have theirs
constexpr std::size_t sockets_beside = 1024;  // ours, and those that still leave
constexpr Connection first_accepted = Connection{1} << 62U;

Instant steady() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// What other threads ask for.
struct Asked {
  bool refuse = false;
  Origin life;
  Channel channel = Channel::message;
  MessageBytes bytes;
};

struct Neighbour {
  Neighbour(links::PeerSettings settings, const ZmqPeer& given, links::Address how)
      : peer(std::move(settings)),
        address(given.address),
        key(given.public_key),
        reached(std::move(how)) {}

  links::Peer peer;
  std::string address;
  std::string key;
  links::Address reached;
  std::optional<links::ParcelSocket> socket;  // where this side dials
  Connection dialed = 0;
};

class ZmqTransport final : public Transport {
 public:
  /// Binds its own address.
  ZmqTransport(ZmqOptions options, const links::Address& own, std::vector<links::Address> reached);
  ~ZmqTransport() override { stop(); }

  void start(TransportListener& listener) override;
  void send(Origin to, Channel channel, MessageBytes bytes) override {
    ask({false, to, channel, std::move(bytes)});
  }
  void refuse(Origin life) override { ask({true, life, Channel::message, {}}); }
  std::vector<LinkState> links() const override;
  wire::Lender* lender() override { return shared_.get(); }
  void stop() override;

 private:
  void share_memory();  // of all machines on ipc sockets
  void ask(Asked asked);
  bool send_from_here(std::uint32_t to);
  void run();
  void wait();
  Instant due() const;
  void take_asked();
  void take_from_bound();
  void take_from(Neighbour& neighbour);
  void stranger(links::Arrival& arrival, const Result<links::Head>& head);
  void answer_key_questions();
  void tick_all();
  void beat_amid();
  bool anything_arrived();
  /// What is taken behind much work was said meanwhile, not when the turn began.
  Instant heard_at() const { return std::max(now_, beaten_); }
  void perform(links::Dial& dial, Neighbour& neighbour);
  void perform(links::HangUp& hang_up, Neighbour& neighbour);
  void perform(links::Transmit& transmit, Neighbour& neighbour);
  void perform(links::Deliver& deliver, Neighbour&);
  void perform(links::SayConnected& said, Neighbour&) {
    failpoint("link_up");
    if (shared_) shared_->meet(said.life);
    listener_->connected(said.life);
  }
  void perform(links::SaySilent& said, Neighbour&) {
    if (shared_) shared_->suspect(said.life);
    listener_->silent(said.life, said.why);
  }
  void perform(links::SayRefused& said, Neighbour&) { listener_->refused(said.by); }
  void perform(LinkNotice& notice, Neighbour&) { say(notice); }
  /// Performs what a peer asks for, and what follows from that.
  void act(Neighbour& neighbour);
  void say(const LinkNotice& notice);
  bool may_leave() const;

  ZmqOptions options_;
  zmq::context_t context_;
  links::SocketSettings socket_settings_;
  std::optional<links::KeyKeeper> keys_;  // before the sockets that need its answers
  links::ParcelSocket bound_;
  std::optional<links::SocketFile> bound_file_;  // of an ipc address; goes before the socket
  links::Door door_;
  links::NoticeLimit limit_;
  std::map<std::uint32_t, Neighbour> neighbours_;

  struct Route {
    Connection connection = 0;
    std::uint32_t machine = 0;
  };
  std::unique_ptr<shm::SharedMemory> shared_;
  std::string not_shared_;                         // why, where it was to be
  std::unordered_map<std::string, Route> routes_;  // accepted connections that somebody has
  std::unordered_map<Connection, std::string> accepted_;
  Connection next_accepted_ = first_accepted;

  TransportListener* listener_ = nullptr;
  /// Held by whoever performs: the transport's thread but while it waits, or a sender meanwhile.
  mutable std::mutex turn_;
  bool runs_ = false;
  bool sends_here_ = false;
  std::vector<std::pair<Neighbour*, links::Effect>> put_off_;  // to the transport's thread
  links::Effects effects_;
  Instant now_{};     // of this turn
  Instant beaten_{};  // in it, amid what was heard
  std::vector<Asked> taken_;
  std::vector<pollfd> poll_;
  std::vector<links::Watch*> watched_;  // beside it

  Bell wake_;
  std::mutex mutex_;  // of what follows
  std::vector<Asked> asked_;
  bool looks_ = true;  // the transport's thread, at what is asked, before it sleeps: nobody rings
  bool closed_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// Of the link to a peer, whose connections are made at the address of the side that is dialed.
links::PeerSettings settings_of(const ZmqOptions& options, const ZmqPeer& peer,
                                const links::Address& own, const links::Address& reached) {
  std::random_device random;
  const bool dials = options.self.machine > peer.machine;
  return {options.self,
          peer.machine,
          dials,
          options.lease,
          options.window_bytes,
          options.workflow,
          options.cluster,
          std::uint64_t{random()} << 32U | random(),
          options.name,
          peer.name,
          links::body_bytes_at(dials ? reached : own)};
}

ZmqTransport::ZmqTransport(ZmqOptions options, const links::Address& own,
                           std::vector<links::Address> reached)
    : options_(std::move(options)),
      context_(1, static_cast<int>(sockets_beside + 2 * options_.peers.size())),
      socket_settings_{options_.keys, options_.lease},
      bound_(context_, socket_settings_, true),
      door_(options_.self, !options_.keys.secret_key.empty()) {
  if (!options_.keys.secret_key.empty()) keys_.emplace(context_);
  for (std::size_t i = 0; i < options_.peers.size(); ++i) {
    const ZmqPeer& peer = options_.peers[i];
    neighbours_.try_emplace(peer.machine, settings_of(options_, peer, own, reached[i]), peer,
                            std::move(reached[i]));
    door_.expect(peer.machine, peer.name);
    if (keys_) keys_->allow(peer.public_key, peer.machine);
  }
  bound_.bind(own, options_.bind);
  if (!own.directory.empty()) bound_file_.emplace(links::ipc_path(options_.bind));
  share_memory();
}

bool has_memory(const ZmqOptions& options) {
  return options.shared_bytes >= shm::BlockPool::slab_bytes && options.bind.starts_with("ipc://");
}

void ZmqTransport::share_memory() {
  if (!has_memory(options_)) return;
  shm::SharedMemoryOptions shared;
  shared.self = options_.self;
  shared.socket = shared_memory_socket(options_.bind);
  shared.bytes_max = options_.shared_bytes;
  shared.reader_bytes_max = options_.shared_bytes / 2;
  for (const ZmqPeer& peer : options_.peers)
    if (peer.address.starts_with("ipc://"))
      shared.peers[peer.machine] = shared_memory_socket(peer.address);
  if (shared.peers.empty()) return;
  Result<std::unique_ptr<shm::SharedMemory>> made = shm::SharedMemory::make(std::move(shared));
  if (made)
    shared_ = std::move(*made);
  else
    not_shared_ = "values travel in messages, where they are copied: " + made.error().message;
}

void ZmqTransport::start(TransportListener& listener) {
  listener_ = &listener;
  thread_ = std::thread([this] { run(); });
}

void ZmqTransport::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  wake_.ring();
  thread_.join();
}

void ZmqTransport::ask(Asked asked) {
  const std::uint32_t to = asked.life.machine;
  bool seen = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    seen = looks_ || !asked_.empty();
    asked_.push_back(std::move(asked));
  }
  if (!seen && !send_from_here(to)) wake_.ring();
}

/// While the transport's thread waits and nothing is on its way to that machine, whoever sends
/// performs it: one thread less has to wake up. False: it is left to that thread.
bool ZmqTransport::send_from_here(std::uint32_t to) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn || !runs_ || stopping_.load()) return false;
  const auto found = neighbours_.find(to);
  if (found == neighbours_.end() || !found->second.peer.idle()) return false;
  now_ = steady();
  sends_here_ = true;
  take_asked();
  sends_here_ = false;
  // What the sockets were told meanwhile wakes nobody any more.
  if (anything_arrived() || !put_off_.empty()) wake_.ring();
  return true;
}

/// Asks those sockets that were used since they last had nothing.
bool ZmqTransport::anything_arrived() {
  bool arrived = bound_.arrived();
  for (auto& [machine, neighbour] : neighbours_)
    if (neighbour.socket) arrived = neighbour.socket->arrived() || arrived;
  return arrived;
}

void ZmqTransport::run() {
  const std::lock_guard turn(turn_);  // `wait` lets go of it
  runs_ = true;
  now_ = steady();
  if (!not_shared_.empty()) say(not_shared_);
  for (auto& [machine, neighbour] : neighbours_) {
    neighbour.peer.start(now_, effects_);
    act(neighbour);
  }
  std::optional<Instant> leave_by;
  while (true) {
    for (auto& [neighbour, effect] : std::exchange(put_off_, {})) {
      effects_.push_back(std::move(effect));
      act(*neighbour);
    }
    take_asked();
    tick_all();
    if (shared_)
      for (const std::string& line : shared_->take_notices()) say(line);
    if (stopping_.load()) {
      if (!leave_by) leave_by = now_ + options_.linger;
      if (now_ >= *leave_by || may_leave()) break;
    }
    wait();
    now_ = steady();
    answer_key_questions();
    take_from_bound();
    for (auto& [machine, neighbour] : neighbours_) take_from(neighbour);
  }
  for (auto& [machine, neighbour] : neighbours_) {
    neighbour.peer.acknowledge(now_, effects_);
    act(neighbour);
    neighbour.socket.reset();
  }
  runs_ = false;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  asked_.clear();
}

std::vector<LinkState> ZmqTransport::links() const {
  const std::lock_guard turn(turn_);
  std::vector<LinkState> links;
  for (const auto& [machine, neighbour] : neighbours_) {
    links.push_back(neighbour.peer.state(steady()));
    if (shared_) links.back().lent = shared_->counts(machine);
  }
  return links;
}

bool ZmqTransport::may_leave() const {
  for (const auto& [machine, neighbour] : neighbours_)
    if (!neighbour.peer.drained()) return false;
  return true;
}

Instant ZmqTransport::due() const {
  Instant due = Instant::max();
  for (const auto& [machine, neighbour] : neighbours_) due = std::min(due, neighbour.peer.due());
  return due;
}

/// Until something arrives, somebody asks, or time has passed.
void ZmqTransport::wait() {
  anything_arrived();  // spares a turn that finds nothing
  poll_.assign(1, {wake_.descriptor(), POLLIN, 0});
  watched_.assign(1, nullptr);
  const auto watch = [this](links::Watch& what) {
    poll_.push_back({what.descriptor, POLLIN, 0});
    watched_.push_back(&what);
  };
  watch(bound_.arrivals);
  if (keys_) watch(keys_->questions);
  for (auto& [machine, neighbour] : neighbours_) {
    if (!neighbour.socket) continue;
    watch(neighbour.socket->arrivals);
    watch(neighbour.socket->fates);
  }
  Instant until = due();
  for (const links::Watch* what : watched_)
    if (what != nullptr && what->look && what->descriptor >= 0) until = Instant{};
  {
    const std::lock_guard lock(mutex_);
    looks_ = !asked_.empty();
    if (looks_) until = Instant{};
  }
  if (stopping_.load()) until = std::min(until, now_ + Instant(10ms));
  const Instant left = std::clamp<Instant>(until - steady(), Instant{}, 10s);
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
  turn_.unlock();  // senders may go ahead while this thread waits
  const int ready = poll(poll_.data(), poll_.size(), static_cast<int>(rounded.count()));
  turn_.lock();
  {
    const std::lock_guard lock(mutex_);
    looks_ = true;
  }
  if (ready <= 0) return;
  if (poll_[0].revents != 0) wake_.hear();
  for (std::size_t i = 1; i < poll_.size(); ++i)
    if (poll_[i].revents != 0) watched_[i]->look = true;
}

void ZmqTransport::take_asked() {
  taken_.clear();
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(asked_);
  }
  for (Asked& asked : taken_) {
    const auto found = neighbours_.find(asked.life.machine);
    if (found == neighbours_.end()) {
      say("a message for machine " + std::to_string(asked.life.machine) +
          ", which is not in this cluster, was dropped");
      continue;
    }
    links::Peer& peer = found->second.peer;
    if (asked.refuse && shared_) shared_->suspect(asked.life);
    if (asked.refuse)
      peer.refuse(asked.life, now_, effects_);
    else
      peer.send(asked.life, asked.channel, std::move(asked.bytes), now_, effects_);
    if (!effects_.empty()) act(found->second);
  }
  for (auto& [machine, neighbour] : neighbours_) {
    neighbour.peer.flush(now_, effects_);
    act(neighbour);
  }
}

void ZmqTransport::tick_all() {
  for (auto& [machine, neighbour] : neighbours_)
    if (neighbour.peer.due() <= now_) {
      neighbour.peer.tick(now_, effects_);
      act(neighbour);
    }
}

/// The engines run what was heard, and that may be much: the others hear of this machine meanwhile.
void ZmqTransport::beat_amid() {
  const Instant now = steady();
  if (now - std::max(now_, beaten_) < options_.lease / 12) return;
  beaten_ = now;
  links::Effects current = std::exchange(effects_, {});
  for (auto& [machine, neighbour] : neighbours_) {
    neighbour.peer.beat(now, effects_);
    act(neighbour);
  }
  effects_ = std::move(current);
}

Result<links::Head> head_of(const links::Arrival& arrival) {
  if (arrival.overlong) return Error{ErrorCode::corrupt, "a parcel of more than two pieces"};
  return links::read_head(arrival.head);
}

void ZmqTransport::take_from_bound() {
  // The socket takes from its connections by turns: whoever has said something is heard before
  // anybody is found silent, also behind a pause of this process.
  const std::size_t most = parcels_a_turn + routes_.size();
  for (std::size_t i = 0; i < most && bound_.arrivals.look; ++i) {
    std::optional<links::Arrival> arrival = bound_.take();
    if (!arrival) return;
    const Result<links::Head> head = head_of(*arrival);
    const auto route = routes_.find(std::string(arrival->route));
    if (route == routes_.end()) {
      stranger(*arrival, head);
      continue;
    }
    Neighbour& neighbour = neighbours_.at(route->second.machine);
    const Connection connection = route->second.connection;
    if (head)
      neighbour.peer.heard(connection, *head, std::move(arrival->body), heard_at(), effects_);
    else
      neighbour.peer.heard_nonsense(connection, head.error().message, heard_at(), effects_);
    act(neighbour);
  }
}

/// A connection that nobody has: the door says who may come in.
void ZmqTransport::stranger(links::Arrival& arrival, const Result<links::Head>& head) {
  const links::Verdict verdict = door_.judge(head, bound_.proved());
  if (const links::Refusal* no = std::get_if<links::Refusal>(&verdict)) {
    if (no->reason != links::Reason::not_connected)
      say({"a connection was refused (" + std::string(to_string(no->reason)) + "): " + no->text,
           no->reason});
    bound_.give(arrival.route, {0, links::write_head(*no), {}});
  }
  const links::Enter* enter = std::get_if<links::Enter>(&verdict);
  if (enter == nullptr) return;
  const Connection connection = next_accepted_++;
  const std::string route(arrival.route);
  routes_[route] = {connection, enter->machine};
  accepted_[connection] = route;
  failpoint("hello_heard");
  Neighbour& neighbour = neighbours_.at(enter->machine);
  neighbour.peer.heard(connection, *head, std::move(arrival.body), heard_at(), effects_);
  act(neighbour);
}

void ZmqTransport::take_from(Neighbour& neighbour) {
  for (std::size_t i = 0; i < parcels_a_turn && neighbour.socket && neighbour.socket->arrivals.look;
       ++i) {
    std::optional<links::Arrival> arrival = neighbour.socket->take();
    if (!arrival) break;
    const Result<links::Head> head = head_of(*arrival);
    if (head)
      neighbour.peer.heard(neighbour.dialed, *head, std::move(arrival->body), heard_at(), effects_);
    else
      neighbour.peer.heard_nonsense(neighbour.dialed, head.error().message, heard_at(), effects_);
    act(neighbour);
  }
  if (!neighbour.socket || !neighbour.socket->fates.look) return;
  if (const std::optional<links::Broken> fate = neighbour.socket->fate()) {
    neighbour.socket->abandon();
    neighbour.peer.broke(neighbour.dialed, *fate, now_, effects_);
    act(neighbour);
  }
}

void ZmqTransport::answer_key_questions() {
  std::optional<std::string> refused;
  if (!keys_ || !keys_->questions.look) return;
  for (std::size_t i = 0; i < parcels_a_turn && keys_->answer(refused); ++i)
    if (refused) say({*refused, links::Reason::key});
}

void ZmqTransport::act(Neighbour& neighbour) {
  // Performing may break a connection, whose peer then wants more: those effects are appended.
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    links::Effect effect = std::move(effects_[i]);
    // The listener is called on one thread, and what follows a put-off effect stays behind it.
    if (sends_here_ && (!put_off_.empty() || !std::holds_alternative<links::Transmit>(effect))) {
      put_off_.emplace_back(&neighbour, std::move(effect));
      continue;
    }
    std::visit([&](auto& what) { perform(what, neighbour); }, effect);
  }
  effects_.clear();
}

void ZmqTransport::perform(links::Dial& dial, Neighbour& neighbour) {
  neighbour.socket.reset();
  neighbour.dialed = dial.connection;
  try {
    neighbour.socket.emplace(context_, socket_settings_, false);
    neighbour.socket->dial(context_, neighbour.reached, neighbour.address, neighbour.key);
    failpoint("dialed");
  } catch (const zmq::error_t& error) {
    neighbour.socket.reset();
    neighbour.peer.broke(dial.connection, {std::string("cannot be dialed: ") + error.what()}, now_,
                         effects_);
  }
}

void ZmqTransport::perform(links::HangUp& hang_up, Neighbour& neighbour) {
  if (hang_up.connection < first_accepted) {
    if (hang_up.connection == neighbour.dialed) neighbour.socket.reset();
    return;
  }
  const auto found = accepted_.find(hang_up.connection);
  if (found == accepted_.end()) return;
  routes_.erase(found->second);
  accepted_.erase(found);
}

void ZmqTransport::perform(links::Transmit& transmit, Neighbour& neighbour) {
  bool given = true;
  if (transmit.connection < first_accepted) {
    if (transmit.connection != neighbour.dialed || !neighbour.socket) return;
    given = neighbour.socket->give({}, transmit);
  } else {
    const auto found = accepted_.find(transmit.connection);
    if (found == accepted_.end()) return;
    given = bound_.give(found->second, transmit);
  }
  if (transmit.body.at != 0) failpoint("part_sent");
  if (!given) neighbour.peer.broke(transmit.connection, {}, now_, effects_);
}

void ZmqTransport::perform(links::Deliver& deliver, Neighbour&) {
  listener_->received(deliver.from, deliver.channel, std::move(deliver.bytes));
  beat_amid();
}

void ZmqTransport::say(const LinkNotice& notice) {
  const std::optional<std::string> shown = limit_.pass(notice.text, now_);
  if (!shown) return;
  if (options_.notice)
    options_.notice({*shown, notice.refused, notice.machine});
  else
    std::fprintf(stderr, "sluice: machine %u: %s\n", options_.self.machine, shown->c_str());
}

/// At an ipc address, and where the memory is handed out.
Result<void> make_room(const ZmqOptions& options) {
  Result<void> room = shm::free_socket_path(links::ipc_path(options.bind));
  if (room && has_memory(options)) room = shm::free_socket_path(shared_memory_socket(options.bind));
  if (room) return room;
  return Error{room.error().code,
               "address '" + options.bind + "' cannot be bound: " + room.error().message};
}

}  // namespace

std::string shared_memory_socket(const std::string& ipc_address) {
  return links::ipc_path(ipc_address) + ".memory";
}

Result<std::unique_ptr<Transport>> make_zmq_transport(ZmqOptions options) {
  if (const Result<void> checked = links::check_options(options); !checked) return checked.error();
  const bool keyed = !options.keys.secret_key.empty();
  const Result<links::Address> own = links::usable(options.bind, keyed);
  if (!own) return own.error();
  std::vector<links::Address> reached;
  for (const ZmqPeer& peer : options.peers) {
    Result<links::Address> address = links::usable(peer.address, keyed);
    if (!address) return address.error();
    reached.push_back(std::move(*address));
  }
  const std::string bind = options.bind;
  std::optional<links::FolderTurn> turn;
  if (!own->directory.empty()) {
    turn.emplace(own->directory);
    if (const Result<void> room = make_room(options); !room) return room.error();
  }
  try {
    return std::unique_ptr<Transport>(
        std::make_unique<ZmqTransport>(std::move(options), *own, std::move(reached)));
  } catch (const zmq::error_t& error) {
    return Error{ErrorCode::unavailable,
                 "address '" + bind + "' cannot be bound: " + std::string(error.what())};
  }
}

}  // namespace sluice
