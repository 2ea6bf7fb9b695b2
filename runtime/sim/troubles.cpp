#include "runtime/sim/troubles.h"

#include <utility>

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;

constexpr Instant lease = 50ms;  // silence after which a machine counts as lost

}  // namespace

void Troubles::plan() {
  const Faults& faults = options_.faults;
  if (options_.machines == 1) return;
  const auto sprinkle = [&](double share, Event::Kind kind, std::uint32_t first,
                            std::size_t count) {
    if (share <= 0) return;
    for (auto i = first; i < count; ++i)
      for (Instant at{}; at < faults.until; at += 20ms)
        if (random_.uniform() < share) agenda_.add(at + cluster_.draw({0ns, 20ms}), kind, i);
  };
  const std::uint32_t first = cluster_.homes() > 1 ? 0 : 1;
  sprinkle(faults.link_break, Event::Kind::break_link, 0, cluster_.network().size());
  sprinkle(faults.cut, Event::Kind::cut, 0, cluster_.network().size());
  sprinkle(faults.pause, Event::Kind::pause, first, cluster_.honest());
  sprinkle(faults.kill, Event::Kind::kill, first, cluster_.honest());
  sprinkle(faults.suspect, Event::Kind::suspect, first, cluster_.honest());
}

void Troubles::handle(const Event& event, Instant now) {
  const std::uint32_t index = event.index;
  switch (event.kind) {
    case Event::Kind::break_link:
      return cluster_.network().break_link(index, now);
    case Event::Kind::cut:
      return cut(event, now);
    case Event::Kind::heal:
      return cluster_.network().heal(index, now);
    case Event::Kind::pause:
      return pause(index, now);
    case Event::Kind::resume:
      return resume(index, now);
    case Event::Kind::kill:
      return kill(index, now);
    case Event::Kind::suspect:
      return suspect(index, now);
    case Event::Kind::verdict:
      if (const Machine& silent = cluster_.machine(index);
          silent.pools.self.incarnation == event.number && silent.paused && !silent.away)
        declare(index, now);
      return;
    case Event::Kind::notice:
      return notice(event, now);
    case Event::Kind::fenced:
      if (cluster_.machine(index).pools.self.incarnation == event.number) forget(index, now);
      return;
    default:
      return;
  }
}

void Troubles::cut(const Event& event, Instant now) {
  Network& network = cluster_.network();
  const std::uint32_t link = event.index;
  const std::uint32_t back = network.back_of(link);
  if (link == back || network.is_cut(link)) return;
  // A cut may cost an end its place in the cluster. Nobody asks the hostile one to leave yet.
  if (std::max(network.from_of(link), network.to_of(link)) >= cluster_.honest()) return;
  const bool both = (random_.next() & 1U) != 0 && !network.is_cut(back);
  const Instant length = cluster_.draw({0ns, 2 * lease});
  network.cut(link);
  agenda_.add(now + length, Event::Kind::heal, link);
  if (both) {
    network.cut(back);
    agenda_.add(now + length, Event::Kind::heal, back);
  }
  ++(both ? counts_.cuts : counts_.cuts_one_way);
  // A cut that outlives the lease costs one of the ends its place.
  if (length > lease)
    agenda_.add(now + lease, Event::Kind::suspect,
                std::max(network.from_of(link), network.to_of(link)));
}

void Troubles::pause(std::uint32_t index, Instant now) {
  Machine& machine = cluster_.machine(index);
  if (machine.paused || machine.away) return;
  machine.paused = true;
  ++counts_.pauses;
  const Instant length = cluster_.draw({0ns, 3 * lease});
  agenda_.add(now + length, Event::Kind::resume, index);
  if (length > lease)
    agenda_.add(now + lease, Event::Kind::verdict, index, machine.pools.self.incarnation);
}

void Troubles::resume(std::uint32_t index, Instant now) {
  Machine& machine = cluster_.machine(index);
  machine.paused = false;
  // It may have been given up in the meantime.
  if (machine.away) return forget(index, now);
  catch_up(machine, now);
}

void Troubles::catch_up(Machine& machine, Instant now) {
  std::vector<Event> deferred = std::exchange(machine.deferred, {});
  for (std::size_t i = 0; i < deferred.size(); ++i) {
    // Before anything else that happens now, in the order in which they came.
    deferred[i].at = now;
    deferred[i].tie = i;
    agenda_.add(deferred[i]);
  }
}

void Troubles::kill(std::uint32_t index, Instant now) {
  Machine& machine = cluster_.machine(index);
  if (machine.paused || machine.away) return;
  ++counts_.kills;
  counts_.homes_lost += index < cluster_.homes() ? 1 : 0;
  host_.credit_lost();
  host_.forget_machine(index);
  cluster_.wipe(index);
  machine.paused = true;  // nobody is there
  agenda_.add(now + lease, Event::Kind::verdict, index, machine.pools.self.incarnation);
  agenda_.add(now + lease + cluster_.draw({1ms, lease}), Event::Kind::resume, index);
}

void Troubles::suspect(std::uint32_t index, Instant now) {
  Machine& machine = cluster_.machine(index);
  if (machine.paused || machine.away) return;
  ++counts_.suspects;
  declare(index, now);
  agenda_.add(now + cluster_.draw({0ns, 2 * lease}), Event::Kind::fenced, index,
              machine.pools.self.incarnation);
}

void Troubles::declare(std::uint32_t index, Instant now) {
  Machine& gone = cluster_.machine(index);
  gone.away = true;
  host_.credit_lost();
  for (std::uint32_t other = 0; other < cluster_.size(); ++other) {
    // Who is away himself is told when he comes back.
    if (other == index || cluster_.machine(other).away) continue;
    ++gone.notices;
    agenda_.add(now + cluster_.draw({0ns, lease / 10}), Event::Kind::notice, other,
                gone.pools.self.incarnation, index);
  }
}

void Troubles::notice(const Event& event, Instant now) {
  const auto about = static_cast<std::uint32_t>(event.extra);
  const Origin over{about, static_cast<std::uint32_t>(event.number)};
  Machine& here = cluster_.machine(event.index);
  if (!here.empty && here.told[about] <= over.incarnation) {
    here.peers.lost(over);
    here.told[about] = over.incarnation + 1;
    host_.credit_lost();
    cluster_.network().drop_from(event.index, about);
    if (here.windows != nullptr) here.windows->forget(about);
    if (about < cluster_.homes())
      for (const NodeId node : cluster_.nodes_of(event.index)) {
        cluster_.engine(node, event.index).home_lost(over, effects_);
        host_.perform(event.index);
      }
    if (here.home) here.home->nodes_lost(cluster_.nodes_of(about), effects_, about);
    host_.perform(event.index);
  }
  settle_notice(about, now);
}

void Troubles::settle_notice(std::uint32_t about, Instant now) {
  Machine& gone = cluster_.machine(about);
  if (--gone.notices == 0 && gone.empty && !gone.paused) admit(about, now);
}

void Troubles::forget(std::uint32_t index, Instant now) {
  Machine& machine = cluster_.machine(index);
  if (!machine.empty) {
    host_.credit_lost();  // of calls, too, that began since the verdict, and came here
    counts_.homes_lost += index < cluster_.homes() ? 1 : 0;
    host_.forget_machine(index);
  }
  const std::vector<Event> deferred = machine.deferred;
  cluster_.wipe(index);
  for (const Event& event : deferred)
    if (event.kind == Event::Kind::notice)
      settle_notice(static_cast<std::uint32_t>(event.extra), now);
  if (machine.notices == 0) admit(index, now);
}

void Troubles::admit(std::uint32_t index, Instant now) {
  Machine& machine = cluster_.machine(index);
  ++machine.pools.self.incarnation;
  std::vector<CallId> given_up;
  for (std::uint32_t other = 0; other < cluster_.size(); ++other) {
    Machine& there = cluster_.machine(other);
    if (other == index || !there.home || there.away) continue;
    const std::vector<CallId> more = there.home->nodes_back(cluster_.nodes_of(index), index);
    given_up.insert(given_up.end(), more.begin(), more.end());
  }
  cluster_.restart(index, given_up, effects_);
  host_.perform(index);
  for (std::uint32_t other = 0; other < cluster_.size(); ++other) {
    if (other == index) continue;
    cluster_.network().reset(machine.pools.self, other, now);
    cluster_.network().reset(cluster_.machine(other).pools.self, index, now);
  }
  catch_up(machine, now);
}

}  // namespace sluice::sim
