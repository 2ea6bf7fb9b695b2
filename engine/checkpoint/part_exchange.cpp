#include "engine/checkpoint/part_exchange.h"

#include <poll.h>

#include <utility>

#include "engine/checkpoint/weight_arena.h"

namespace sluice {

namespace {

using Kind = PartPacket::Kind;
constexpr int packets_at_once = 64;  // of one process, before the others have their turn

}  // namespace

PartExchange::PartExchange() {
  thread_ = std::thread([this] { run(); });
}

PartExchange::~PartExchange() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  bell_.ring();
  thread_.join();
}

Result<OwnedFile> PartExchange::join(std::string name) {
  auto sockets = packet_sockets();
  if (!sockets.ok()) return sockets.error();
  {
    const std::lock_guard lock(mutex_);
    members_.emplace(next_++, Member{std::move(sockets->first), std::move(name), 0, 0});
  }
  bell_.ring();
  return std::move(sockets->second);
}

std::vector<PartExchange::Report> PartExchange::report() {
  const std::lock_guard lock(mutex_);
  std::vector<Report> all;
  for (const auto& [key, part] : broker_.parts()) {
    Report& one = all.emplace_back();
    if (const auto it = memories_.find(key); it != memories_.end()) one.bytes = it->second.bytes;
    const Asked& any = asks_.at(part.there ? *part.holders.begin() : part.maker);
    one.what = any.what;
    if (!part.there) one.maker = any.name;
    for (const Ask ask : part.holders) one.holders.push_back(asks_.at(ask).name);
    for (const Ask ask : part.waiting) one.waiting.push_back(asks_.at(ask).name);
  }
  return all;
}

void PartExchange::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stops_) return;
    }
    serve();
  }
}

/// One round. Only this thread closes sockets, so those that are polled stay what they are.
void PartExchange::serve() {
  std::vector<pollfd> events{{bell_.descriptor(), POLLIN, 0}};
  std::vector<std::uint64_t> members, asks;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, member] : members_) {
      events.push_back({member.socket.get(), POLLIN, 0});
      members.push_back(id);
    }
    for (const auto& [id, ask] : asks_) {
      events.push_back({ask.socket.get(), POLLIN, 0});
      asks.push_back(id);
    }
  }
  if (::poll(events.data(), events.size(), -1) <= 0) return;
  (void)bell_.hear();
  const std::lock_guard lock(mutex_);
  auto event = events.begin() + 1;
  for (const std::uint64_t id : members)
    if ((event++)->revents != 0) hear_member(id);
  for (const Ask id : asks)
    if ((event++)->revents != 0) hear_ask(id);
}

void PartExchange::hear_member(std::uint64_t id) {
  const auto it = members_.find(id);
  for (int packets = 0; packets < packets_at_once; ++packets) {
    auto received = receive_packet(it->second.socket.get());
    if (received.ok() && !received->has_value()) return;
    if (!received.ok() || !take(id, std::move(**received))) return leave(id);
  }
}

bool PartExchange::take(std::uint64_t id, ReceivedPacket received) {
  PartPacket& packet = received.packet;
  Member& member = members_.at(id);
  // Only who takes part by the owner's word lets others in.
  if (packet.kind != Kind::ask && (packet.kind != Kind::join || member.by != 0)) return false;
  // One too many: its socket is closed, and it hears that nobody answers.
  if (member.asks >= asks_max) return true;
  ++member.asks;
  const std::uint64_t number = next_++;
  if (packet.kind == Kind::join) {
    std::string name = packet.text + " of " + member.name;
    members_.emplace(number, Member{std::move(received.with), std::move(name), id, 0});
    return true;
  }
  asks_.emplace(number, Asked{std::move(received.with), id, member.name, std::move(packet.text)});
  PartBroker::Effects effects;
  broker_.asks(number, packet.part, effects);
  perform(std::move(effects));
  return true;
}

void PartExchange::one_less(std::uint64_t id) {
  if (const auto member = members_.find(id); member != members_.end()) --member->second.asks;
}

void PartExchange::leave(std::uint64_t id) {
  const auto it = members_.find(id);
  one_less(it->second.by);
  members_.erase(it);
}

void PartExchange::hear_ask(Ask ask) {
  const auto it = asks_.find(ask);
  if (it == asks_.end()) return;  // ended in this round
  auto received = receive_packet(it->second.socket.get());
  if (received.ok() && !received->has_value()) return;
  PartBroker::Effects effects;
  const std::optional<std::size_t> size = received.ok() && (*received)->packet.kind == Kind::made
                                              ? sealed_size((*received)->with)
                                              : std::nullopt;
  if (!size.has_value()) {
    end(ask, effects);
  } else {
    const PartKey part = broker_.part_of(ask);
    if (broker_.made(ask, effects))
      memories_[part] = {std::move((*received)->with), *size};
    else
      end(ask, effects);
  }
  perform(std::move(effects));
}

void PartExchange::end(Ask ask, PartBroker::Effects& effects) {
  const auto it = asks_.find(ask);
  one_less(it->second.member);
  asks_.erase(it);
  broker_.ends(ask, effects);
}

void PartExchange::perform(PartBroker::Effects effects) {
  while (!effects.empty()) {
    PartBroker::Effects more;
    for (const PartBroker::Effect& effect : effects) {
      if (effect.kind == PartBroker::Effect::Kind::drop)
        memories_.erase(effect.part);
      else if (asks_.contains(effect.ask) && !tell(effect).ok())
        end(effect.ask, more);
    }
    effects = std::move(more);
  }
}

Result<void> PartExchange::tell(const PartBroker::Effect& effect) {
  const int socket = asks_.at(effect.ask).socket.get();
  switch (effect.kind) {
    case PartBroker::Effect::Kind::make:
      return send_packet(socket, {Kind::make, {}, {}});
    case PartBroker::Effect::Kind::have:
      return send_packet(socket, {Kind::have, {}, {}}, memories_.at(effect.part).file.get());
    default: {
      const auto maker = asks_.find(effect.maker);
      return send_packet(socket, {Kind::wait, {}, maker == asks_.end() ? "" : maker->second.name});
    }
  }
}

}  // namespace sluice
