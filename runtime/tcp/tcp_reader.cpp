#include "runtime/tcp/tcp_reader.h"

#include <algorithm>
#include <utility>

#include "runtime/tcp/tcp_grants.h"

namespace sluice::tcp {

namespace {

/// Of one connection before others have their turn.
constexpr std::size_t turn_bytes = std::size_t{1} << 20U;
/// An owner gets on with each read that ends, and with so many bytes of a longer one; not with each
/// byte, so that one byte every few seconds does not keep reads.
constexpr std::size_t step_bytes = std::size_t{64} << 10U;
/// Before it sleeps where something is awaited.
constexpr std::chrono::microseconds looking_most{20};
/// For so long after somebody looked for an answer the thread leaves answers to whoever looks: to
/// wake it beside takes a processor from one of the two that are at it.
constexpr std::chrono::microseconds rest_most{1000};
/// An answer that has been awaited for so long is the thread's too: who looks is about to sleep. Of
/// a question that is asked while the thread rests, only somebody's look says so.
constexpr std::chrono::microseconds left_to_others{200};
/// Where a read ended so lately, more is read soon, in which the thread takes part.
constexpr std::chrono::milliseconds read_again{10};

}  // namespace

Result<std::unique_ptr<Reader>> Reader::make(const TcpMemoryOptions& options,
                                             std::shared_ptr<Landing> landing) {
  auto waiter = Waiter::make();
  if (!waiter.ok()) return waiter.error();
  return std::make_unique<Reader>(options, std::move(landing), std::move(waiter).value());
}

Reader::Reader(const TcpMemoryOptions& options, std::shared_ptr<Landing> landing,
               std::unique_ptr<Waiter> waiter)
    : options_(options), landing_(std::move(landing)), waiter_(std::move(waiter)) {
  thread_ = std::thread([this] { run(); });
}

Reader::~Reader() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  waiter_->ring();
  thread_.join();
}

void Reader::put(Command command) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = commands_.empty();
    commands_.push_back(std::move(command));
  }
  if (is_first) waiter_->ring();
}

std::uint64_t Reader::open(std::shared_ptr<Remote> remote) {
  const std::uint64_t connection = next_++;
  put(Open{connection, std::move(remote)});
  return connection;
}

void Reader::read(std::uint64_t connection, std::uint64_t number, const Request& request,
                  Ref<Buffer> to) {
  Read one{connection, number, request, std::move(to)};
  if (!ask_now(one)) put(std::move(one));
}

bool Reader::look() {
  if (taken_.test_and_set(std::memory_order_acquire)) return true;
  bool awaits = false;
  for (auto& [number, one] : connections_) {
    if (one.link.asked() == 0 || one.is_over) continue;
    awaits = true;
    move(one, true);
  }
  if (awaits) looked_at_ = Clock::now();
  if (awaits && rests_ && rests_until() <= looked_at_) waiter_->ring();
  leave_connections();
  return awaits;
}

void Reader::close(std::uint64_t connection) { put(Close{connection}); }

void Reader::take_connections() {
  while (taken_.test_and_set(std::memory_order_acquire)) taken_.wait(true);
}

void Reader::leave_connections() {
  taken_.clear(std::memory_order_release);
  taken_.notify_one();
}

bool Reader::ask_now(Read& read) {
  if (taken_.test_and_set(std::memory_order_acquire)) return false;
  const auto it = connections_.find(read.connection);
  const bool can = !waits_long_ && it != connections_.end() && it->second.socket &&
                   it->second.link.is_open() && it->second.link.asked() == 0 &&
                   !it->second.remote->has_failed() &&
                   is_within(read.request, it->second.remote->key().size) &&
                   read.request.first.size + read.request.then.size > 0;
  if (can) {
    Connection& one = it->second;
    one.link.ask(read.number, read.request, std::move(read.to));
    send_now(one);
    if (rests_) waiter_->ring();  // it takes part in what is more than an answer
  }
  leave_connections();
  return can;
}

void Reader::send_now(Connection& one) {
  give_time(one);
  one.is_over = !send_some(one) || one.link.is_broken();
  has_moved_ = true;
  if (one.is_over || waits_long_) waiter_->ring();
}

bool Reader::ask(std::uint64_t connection, std::uint64_t number,
                 std::span<const std::byte> question) {
  if (taken_.test_and_set(std::memory_order_acquire)) {
    put(Question{connection, number, {question.begin(), question.end()}});
    return true;
  }
  const auto it = connections_.find(connection);
  const bool can = it != connections_.end() && it->second.socket && it->second.link.rests() &&
                   !it->second.remote->has_failed();
  if (can) {
    it->second.link.ask_owner(number, question);
    it->second.asked_at = Clock::now();
    send_now(it->second);
  }
  leave_connections();
  return can;
}

/// Reads that others ask for meanwhile have their time: so it is as short as theirs, until nothing
/// has moved for so long.
std::chrono::nanoseconds Reader::longest_wait() {
  const std::chrono::nanoseconds late = until_late();
  waits_long_ = late.count() < 0 && !std::exchange(has_moved_, false);
  if (waits_long_) return late;
  return late.count() < 0 ? options_.silence_most : std::min(late, options_.silence_most);
}

Reader::Clock::time_point Reader::rests_until() const {
  for (const auto& [number, one] : connections_) {
    const bool opens = one.socket && !one.link.is_open();
    if (opens || one.link.is_read()) return {};
    if (one.link.asked() > 0 && Clock::now() >= one.asked_at + left_to_others) return {};
  }
  return Clock::now() < read_at_ + read_again ? Clock::time_point{} : looked_at_ + rest_most;
}

void Reader::run() {
  take_connections();
  for (;;) {
    std::chrono::nanoseconds most = longest_wait();
    const bool is_awaited = std::ranges::any_of(
        connections_, [](const auto& one) { return one.second.link.asked() > 0; });
    const std::chrono::nanoseconds rest = rests_until() - Clock::now();
    const bool rests = rests_ = rest.count() > 0;
    leave_connections();
    if (rests) {
      waiter_->wait_for_bell(rest);
      most = {};
    }
    const std::vector<Waiter::Event> events =
        waiter_->wait(most, is_awaited && !rests ? looking_most : std::chrono::microseconds(0));
    take_connections();
    has_moved_ = has_moved_ || !events.empty() || rests;  // what others took was no event here
    rests_ = false;
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) break;
    }
    take_commands();
    for (const Waiter::Event& event : events)
      if (const auto it = connections_.find(event.number); it != connections_.end())
        move(it->second, event.can_read);
    end_late();  // behind what came while this process stood still
  }
  connections_.clear();
}

void Reader::take_commands() {
  std::deque<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) std::visit([this](auto& one) { perform(one); }, command);
  has_moved_ = has_moved_ || !commands.empty();
  for (auto& [number, one] : connections_) {
    if (std::exchange(one.is_over, false)) fail(one);
    if (std::exchange(one.has_changed, false)) move(one, false);
  }
}

void Reader::perform(Open& open) {
  Nonce nonce{};
  fill_random(nonce.data(), nonce.size());
  const Key& key = open.remote->key();
  Connection& one =
      connections_
          .emplace(open.connection,
                   Connection{open.connection, std::move(open.remote), dial(key.owner),
                              Link(key, nonce, landing_), Clock::now() + options_.handshake_most})
          .first->second;
  if (!one.socket || !waiter_->add(one.socket, one.number, true, true)) fail(one);
}

void Reader::perform(Read& read) {
  const auto it = connections_.find(read.connection);
  if (it == connections_.end()) return;  // closed: it ends unheard
  Connection& one = it->second;
  const bool can_be = is_within(read.request, one.remote->key().size);
  const bool is_empty = read.request.first.size + read.request.then.size == 0;
  if (!can_be || is_empty || one.remote->has_failed()) {
    read.to = Ref<Buffer>();  // nothing is written there
    const bool is_read = can_be && is_empty && !one.remote->has_failed();
    return one.remote->tell({read.number, is_read ? landing_->take(0) : Ref<Buffer>()});
  }
  if (one.link.is_open() && one.link.asked() == 0) give_time(one);
  one.link.ask(read.number, read.request, std::move(read.to));
  one.has_changed = true;
}

void Reader::perform(const Question& question) {
  const auto it = connections_.find(question.connection);
  if (it == connections_.end()) return;
  Connection& one = it->second;
  if (!one.socket || !one.link.rests() || one.remote->has_failed())
    return one.remote->tell({question.number, {}, true});
  give_time(one);
  one.link.ask_owner(question.number, question.text);
  one.asked_at = Clock::now();
  one.has_changed = true;
}

void Reader::perform(const Close& close) { connections_.erase(close.connection); }

void Reader::move(Connection& one, bool can_read) {
  if (one.link.is_broken() || !one.socket) return;
  if (can_read) receive_some(one);
  if (!send_some(one)) return fail(one);
  tell_ended(one);
  if (one.link.is_broken()) fail(one);
}

void Reader::receive_some(Connection& one) {
  const bool was_open = one.link.is_open();
  std::size_t got = 0;
  while (got < turn_bytes) {
    Link::Rooms rooms{};
    const std::size_t count = one.link.rooms(rooms);
    std::size_t room = 0, bytes = 0;
    for (std::size_t i = 0; i < count; ++i) room += rooms[i].size();
    const Moved moved =
        room == 0 ? Moved::ended : receive(one.socket, std::span(rooms).first(count), bytes);
    if (moved == Moved::ended) return fail(one);
    if (moved == Moved::none) break;
    one.link.took(bytes);
    got += bytes;
    if (bytes < room) break;
  }
  one.got += got;
  const bool opens = one.link.is_open() && !was_open;
  if (opens || one.link.has_ended() || (was_open && one.got >= step_bytes)) give_time(one);
}

void Reader::give_time(Connection& one) {
  one.deadline = Clock::now() + options_.silence_most;
  one.got = 0;
}

bool Reader::send_some(Connection& one) {
  bool is_full = false;
  while (one.socket && !is_full) {
    const std::span<const std::byte> bytes = one.link.to_send();
    if (bytes.empty()) break;
    std::size_t sent = 0;
    const Moved moved = send(one.socket, std::span(&bytes, 1), sent);
    if (moved == Moved::ended) return false;
    if (moved == Moved::none) is_full = true;
    one.link.sent(sent);
  }
  if (one.socket && one.writes != is_full) {
    one.writes = is_full;
    waiter_->change(one.socket, one.number, true, is_full);
  }
  return true;
}

void Reader::tell_ended(Connection& one) {
  for (Link::Ended& ended : one.link.take_ended()) {
    if (!ended.is_answer) read_at_ = Clock::now();
    one.remote->tell(std::move(ended));
  }
}

/// For good: all that is asked of the region from now on ends without bytes.
void Reader::fail(Connection& one) {
  one.remote->fail();
  one.socket = OwnedFile();
  tell_ended(one);
  std::vector<Link::Ended> unended = one.link.unended();
  one.link.give_up();  // nothing is written into their places any more
  for (Link::Ended& ended : unended) one.remote->tell(std::move(ended));
}

bool Reader::is_timed(const Connection& one) {
  return one.socket && (!one.link.is_open() || one.link.asked() > 0);
}

std::chrono::nanoseconds Reader::until_late() const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [number, one] : connections_)
    if (is_timed(one)) next = std::min(next, one.deadline);
  return next == Clock::time_point::max() ? std::chrono::nanoseconds(-1)
                                          : std::max(next - Clock::now(), Clock::duration::zero());
}

void Reader::end_late() {
  const Clock::time_point now = Clock::now();
  for (auto& [number, one] : connections_)
    if (is_timed(one) && one.deadline <= now) fail(one);
}

}  // namespace sluice::tcp
