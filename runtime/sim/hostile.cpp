#include "runtime/sim/hostile.h"

#include <utility>

#include "base/crc32c.h"

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;

void seal(wire::Bytes& bytes) {
  const std::uint32_t sum = crc32c(std::span(bytes).first(bytes.size() - 4));
  for (std::size_t i = 0; i < 4; ++i)
    bytes[bytes.size() - 4 + i] = static_cast<std::byte>(sum >> (8 * i));
}

}  // namespace

void Hostile::plan() {
  const Faults& faults = options_.faults;
  if (cluster_.honest() == cluster_.size()) return;
  for (std::uint32_t other = 0; other < cluster_.honest(); ++other)
    for (Instant at{}; at < faults.until; at += 20ms)
      if (random_.uniform() < faults.hostile)
        agenda_.add(at + cluster_.draw({0ns, 20ms}), Event::Kind::forge, other);
  // By then nobody else is in trouble any more.
  for (std::uint32_t other = 0; other < cluster_.honest(); ++other)
    agenda_.add(faults.until + 10s, Event::Kind::expel, other);
}

Message* Hostile::recall(Instant now) {
  const std::vector<wire::Bytes>& heard = cluster_.heard();
  if (heard.empty()) return nullptr;
  Message* message = nullptr;
  // What homes say is what it may say in its own calls: it prefers that.
  for (int attempts = 0; attempts < 4; ++attempts) {
    if (message != nullptr) pools_.give(message);
    const wire::Bytes& bytes = heard[random_.next() % heard.size()];
    message = wire::decode(plan_, bytes, now, cluster_.limits(), pools_).value();
    if (message->kind == Message::Kind::frame && plan_.edges[message->target].from == entry_node)
      break;
  }
  return message;
}

void Hostile::claim(Share& share) {
  for (Share* at = &share; at->scope; at = &const_cast<Scope*>(at->scope.get())->parent) {
    auto* scope = const_cast<Scope*>(at->scope.get());
    scope->id.origin = self_;
    for (std::size_t i = 0; i < scope->outer.size(); ++i) claim(scope->outer[i]);
  }
}

void Hostile::claim(Message& message) {
  message.call = {random_.next() % 8 + 1, self_};
  for (std::size_t i = 0; i < message.shares.size(); ++i) claim(message.shares[i]);
}

void Hostile::turn_into_order(Message& message) {
  constexpr Message::Kind orders[] = {Message::Kind::cancel, Message::Kind::abort,
                                      Message::Kind::call_ended};
  message.kind = orders[random_.next() % 3];
  message.to = static_cast<NodeId>(1 + random_.next() % (plan_.nodes.size() - 1));
  message.floor = random_.next() % 16;
  if (message.kind != Message::Kind::cancel)
    message.credit = Credit();
  else if (!message.credit)
    message.credit = {1, 0};
}

void Hostile::change(wire::Bytes& bytes) {
  for (std::uint64_t n = random_.next() % 3 + 1; n > 0; --n)
    bytes[1 + random_.next() % (bytes.size() - 1)] = static_cast<std::byte>(random_.next());
  seal(bytes);
}

void Hostile::speak(Instant now) {
  Message* message = recall(now);
  if (message == nullptr) return;
  const std::uint64_t how = random_.next() % 8;
  if (how == 7) turn_into_order(*message);
  if (how >= 3 && (how != 7 || random_.next() % 2 == 0)) claim(*message);
  const auto draw = static_cast<std::uint32_t>(random_.next() % cluster_.honest());
  const bool home = message->to == entry_node;
  std::uint32_t to =
      home ? message->call.home.machine : cluster_.machine_of(message->to, message->call);
  if (to >= cluster_.honest() || random_.next() % 8 == 0) to = draw;
  Parcel parcel{{}, self_, no_flight};
  if (wire::encode(plan_, *message, now, cluster_.limits(), parcel.bytes)) {
    if (how == 0 || how == 3) change(parcel.bytes);
    ++counts_.forged;
    cluster_.network().send(self_.machine, to, std::move(parcel), now);
  }
  pools_.give(message);
}

void Hostile::begin(const StartActivation& start, Instant now) {
  const std::uint32_t at = cluster_.machine_of(start.node, start.call);
  running_.push_back(
      {start.node, start.activation, at, cluster_.machine(at).pools.self.incarnation});
  agenda_.add(now + cluster_.draw({0ns, 3ms}), Event::Kind::stranger,
              static_cast<std::uint32_t>(running_.size() - 1));
}

void Hostile::end(const Event& event) {
  const Running& running = running_[event.index];
  Machine& there = cluster_.machine(running.machine);
  if (there.empty || there.pools.self.incarnation != running.incarnation) return;
  cluster_.ended(running.node, running.machine);
  Engine& engine = cluster_.engine(running.node, running.machine);
  if (random_.next() % 3 != 0) {
    const std::size_t outputs = plan_.nodes[running.node].outputs.size();
    Frame* made = there.pools.new_frame(running.node, outputs);
    made->mask = outputs == 0 ? 0 : random_.next() & (~std::uint64_t{0} >> (64 - outputs));
    for (std::size_t i = 0; i < outputs; ++i)
      if ((made->mask >> i & 1U) != 0)
        made->values[i] = token_payload(0, frame, static_cast<std::int64_t>(random_.next() % 3));
    engine.yielded(running.activation, made, false, effects_);
  }
  std::unique_ptr<Failure> failure;
  if (random_.next() % 8 == 0)
    failure = std::make_unique<Failure>(Failure{running.node, {ErrorCode::unavailable, "failed"}});
  engine.ended(running.activation, std::move(failure), effects_);
}

void Hostile::expel(std::uint32_t machine) {
  for (const NodeId node : cluster_.nodes_of(machine))
    cluster_.engine(node, machine).home_lost(self_, effects_);
}

}  // namespace sluice::sim
