#include "runtime/tcp/tcp_owner.h"

#include <algorithm>

namespace sluice::tcp {

namespace {

constexpr std::uint64_t listener_number = 1;
/// To one connection before others have their turn.
constexpr std::size_t turn_bytes = std::size_t{1} << 20U;
constexpr std::size_t accepts_a_turn = 16;
/// Where there are no descriptors for another connection.
constexpr std::chrono::milliseconds listening_pause{100};
/// Before it sleeps, once something came: from one page to the question for the next one.
constexpr std::chrono::microseconds looking_most{100};

}  // namespace

Result<std::shared_ptr<Owner>> Owner::make(const TcpMemoryOptions& options, unsigned threads) {
  auto made = std::make_shared<Owner>(options);
  Result<OwnedFile> listener = listen_at(options.host, made->port_);
  if (!listener.ok()) return listener.error();
  made->listener_ = std::move(listener).value();
  for (unsigned i = 0; i < threads; ++i) {
    auto waiter = Waiter::make();
    if (!waiter.ok()) return waiter.error();
    made->loops_.push_back(std::make_unique<Loop>());
    made->loops_.back()->waiter = std::move(waiter).value();
  }
  if (!made->loops_[0]->waiter->add(made->listener_, listener_number, true, false))
    return Error{ErrorCode::exhausted, "no descriptors for reads of pages"};
  for (const auto& loop : made->loops_)
    loop->thread = std::thread([owner = made.get(), one = loop.get()] { owner->run(*one); });
  return made;
}

Owner::~Owner() {
  is_over_ = true;
  for (const auto& loop : loops_) {
    loop->waiter->ring();
    if (loop->thread.joinable()) loop->thread.join();
  }
}

Key Owner::grant(const std::shared_ptr<const Region>& region) {
  const Grants::Made made = grants_.make(region);
  return {{options_.host, port_}, made.number, region->size(), options_.is_encrypted, made.secret};
}

void Owner::let_go(Region& region) {
  region.let_go();
  grants_.drop_gone();
  for (const auto& loop : loops_) loop->waiter->ring();
}

void Owner::run(Loop& loop) {
  bool has_moved = false;  // who has asked for a page asks for the next one soon
  while (!is_over_) {
    const std::vector<Waiter::Event> events =
        loop.waiter->wait(end_late(loop), has_moved ? looking_most : std::chrono::microseconds(0));
    has_moved = !events.empty();
    for (const Waiter::Event& event : events) {
      if (event.number == listener_number) {
        accept_some();
        continue;
      }
      const auto it = loop.connections.find(event.number);
      if (it == loop.connections.end()) continue;
      if (!move(it->second, event.can_read))
        drop(loop, it);
      else
        watch(loop, it->first, it->second);
    }
    take_accepted(loop);
    if (&loop == loops_[0].get() && !is_listening_ && listens_at_ <= Clock::now()) {
      is_listening_ = true;
      loop.waiter->change(listener_, listener_number, true, false);
    }
  }
  loop.connections.clear();
}

void Owner::drop(Loop& loop, Connections::iterator one) {
  loop.connections.erase(one);
  --connections_;
}

void Owner::accept_some() {
  for (std::size_t i = 0; i < accepts_a_turn; ++i) {
    bool can_wait = true;
    OwnedFile one = accept_at(listener_, can_wait);
    if (!one && !can_wait) {
      is_listening_ = false;
      listens_at_ = Clock::now() + listening_pause;
      loops_[0]->waiter->change(listener_, listener_number, false, false);
    }
    if (!one) return;
    Loop& loop = *loops_[turn_++ % loops_.size()];
    {
      const std::lock_guard lock(loop.mutex);
      if (loop.accepted.size() >= strangers_most) continue;  // it is closed
      loop.accepted.push_back(std::move(one));
    }
    loop.waiter->ring();
  }
}

void Owner::take_accepted(Loop& loop) {
  std::vector<OwnedFile> accepted;
  {
    const std::lock_guard lock(loop.mutex);
    accepted.swap(loop.accepted);
  }
  for (OwnedFile& socket : accepted) {
    const auto is_stranger = [](const auto& one) { return !one.second.serving.is_proven(); };
    const auto strangers = std::ranges::count_if(loop.connections, is_stranger);
    if (static_cast<std::size_t>(strangers) >= strangers_most)
      drop(loop, std::ranges::find_if(loop.connections, is_stranger));
    if (loop.connections.size() >= connections_most) continue;
    const std::uint64_t number = loop.next++;
    if (!loop.waiter->add(socket, number, true, false)) continue;
    Nonce nonce{};
    fill_random(nonce.data(), nonce.size());
    loop.connections.emplace(
        number, Connection{std::move(socket), Serving(grants_, options_.is_encrypted, nonce),
                           Clock::now() + options_.handshake_most});
    ++connections_;
  }
}

bool Owner::move(Connection& one, bool can_read) {
  if (one.serving.is_over()) return false;
  return (!can_read || read_some(one)) && write_some(one);
}

bool Owner::read_some(Connection& one) {
  const bool owed = one.serving.owes(), was_proven = one.serving.is_proven();
  for (;;) {
    const std::span<std::byte> room = one.serving.room();
    if (room.empty()) break;
    std::size_t bytes = 0;
    const Moved moved = receive(one.socket, room, bytes);
    if (moved == Moved::ended || (moved == Moved::some && !one.serving.took(bytes))) return false;
    if (moved == Moved::none || bytes < room.size()) break;
  }
  if (one.serving.is_proven() && (!owed || !was_proven))
    one.deadline = Clock::now() + options_.reader_silence_most;
  return true;
}

bool Owner::write_some(Connection& one) {
  std::size_t left = turn_bytes;
  while (one.serving.owes() && left > 0) {
    Serving::Pieces pieces{};
    const std::size_t count = one.serving.pieces(pieces);
    if (count == 0) return false;
    std::size_t bytes = 0;
    const Moved moved = send(one.socket, std::span(pieces).first(count), bytes);
    if (moved == Moved::ended) return false;
    if (moved == Moved::none) break;
    one.serving.sent(bytes);
    left -= std::min(left, bytes);
  }
  if (left < turn_bytes && one.serving.is_proven())
    one.deadline = Clock::now() + options_.reader_silence_most;
  return true;
}

void Owner::watch(Loop& loop, std::uint64_t number, Connection& one) {
  const bool reads = !one.serving.room().empty(), writes = one.serving.owes();
  if (reads == one.reads && writes == one.writes) return;
  one.reads = reads;
  one.writes = writes;
  loop.waiter->change(one.socket, number, reads, writes);
}

std::chrono::nanoseconds Owner::end_late(Loop& loop) {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  if (&loop == loops_[0].get() && !is_listening_) next = listens_at_;
  std::erase_if(loop.connections, [&](const auto& one) {
    const Connection& it = one.second;
    const bool is_timed = !it.serving.is_proven() || it.serving.owes();
    const bool ends = it.serving.is_over() || (is_timed && it.deadline <= now);
    if (is_timed && !ends) next = std::min(next, it.deadline);
    connections_ -= ends ? 1 : 0;
    return ends;
  });
  return next == Clock::time_point::max() ? std::chrono::nanoseconds(-1)
                                          : std::max(next - now, Clock::duration::zero());
}

}  // namespace sluice::tcp
