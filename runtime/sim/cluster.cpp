#include "runtime/sim/cluster.h"

#include "graph/clock.h"

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t choices_most = 16;  // of a plan here: the oracle keeps a row of numbers

/// Each executor on a machine; with a spread every second one, as the seed says, on several.
NodeMachines machines_of_nodes(const Plan& plan, std::uint32_t machines, const Options& options) {
  NodeMachines where;
  std::vector<Replicas::Unit> units;
  std::vector<std::uint16_t> unit_of;                                   // by node
  std::vector<std::uint16_t> of_executor(plan.nodes.size() + 1, none);  // likewise, but for `none`
  std::vector<bool> seen(of_executor.size());
  std::uint64_t choices = 1;
  for (const PlanNode& node : plan.nodes) {
    const std::uint32_t first = node.id == entry_node ? 0 : (node.executor + 1U) % machines;
    where.of.push_back(first);
    unit_of.push_back(none);
    if (node.id == entry_node) continue;
    if (of_executor.size() <= node.executor) {
      of_executor.resize(node.executor + std::size_t{1}, none);
      seen.resize(of_executor.size());
    }
    const std::uint64_t draw = mixed(options.seed, 1000 + std::uint64_t{node.executor});
    const std::uint64_t most = std::min(options.spread, machines);
    if (!seen[node.executor] && most > 1 && draw % 2 == 0) {
      const std::uint64_t several = 2 + draw / 2 % (most - 1);
      if (choices * several <= choices_most) {
        choices *= several;
        of_executor[node.executor] = static_cast<std::uint16_t>(units.size());
        units.emplace_back();
        for (std::uint32_t i = 0; i < several; ++i)
          units.back().machines.push_back((first + i) % machines);
      }
    }
    seen[node.executor] = true;
    unit_of.back() = of_executor[node.executor];
    if (unit_of.back() != none && node.balance == Balance::session) {
      units[unit_of.back()].by_session = true;
      units[unit_of.back()].by_cache = draw % 3 == 0;
    }
  }
  where.replicas = Replicas(std::move(units), std::move(unit_of));
  return where;
}

}  // namespace

Options settled(Options options) {
  if (options.machines < 3 || (options.homes == 0 && mixed(options.seed, 5) % 3 != 0))
    options.faults.hostile = 0;
  if (options.faults.until == Instant{} || options.machines == 1) return options;
  if (options.spread == 0 && mixed(options.seed, 11) % 3 == 0) options.spread = 3;
  if (options.window != 0) return options;
  // A frame is some hundred bytes.
  constexpr std::size_t windows[] = {0, 1, 300, 1500};
  options.window = windows[mixed(options.seed, 7) % std::size(windows)];
  // Whoever waits for a role that hangs waits for long: that would hide who waits for ever.
  if (options.window != 0 && mixed(options.seed, 9) % 2 == 0) options.faults.role_hang = 0;
  return options;
}

std::uint32_t homes_of(const Options& options) {
  const std::uint32_t most = options.machines - (options.faults.hostile > 0 ? 1 : 0);
  if (options.homes != 0) return std::min(options.homes, most);
  if (options.faults.until == Instant{}) return 1;
  return 1 + static_cast<std::uint32_t>(mixed(options.seed, 3) % std::min<std::uint32_t>(most, 3));
}

Instant Clock::when(Instant shown) const {
  // In two parts, so that nothing overflows.
  const std::int64_t passed = (shown - offset).count();
  const std::int64_t each = 1'000'000 + ppm;
  Instant now(passed / each * 1'000'000 + passed % each * 1'000'000 / each);
  while (local(now) < shown) now += 1ns;
  return now;
}

Cluster::Cluster(const Plan& plan, const Options& options, std::uint32_t homes, Agenda& agenda,
                 SplitMix64& random, Oracle& oracle, FaultCounts& counts)
    : plan_(plan),
      options_(options),
      homes_(homes),
      honest_(options.machines - (options.faults.hostile > 0 ? 1 : 0)),
      limits_{.machines = options.machines},
      agenda_(agenda),
      random_(random),
      oracle_(oracle),
      counts_(counts),
      nodes_(machines_of_nodes(plan, honest_, options)),
      contract_(plan, placement(), {}),
      machines_(options.machines),
      stops_(stopping_edges(std::vector{by_executor(plan)}).front()),
      network_(options, agenda, random, oracle, counts) {
  for (std::uint32_t i = 0; i < options.machines; ++i) {
    Machine& machine = machines_[i];
    machine.peers = Membership(options.machines);
    machine.told.resize(options.machines);
    machine.pools.self.machine = i;
    machine.pools.waiting_max = waiting_from_others_max;
    make_windows(machine);
    if (i < homes_) make_home(machine);
  }
  make_clocks();
  engines_.resize(options.machines);
  for (std::uint32_t at = 0; at < options.machines; ++at) {
    engines_[at].resize(plan.nodes.size());
    for (const NodeId node : nodes_of(at))
      engines_[at][node] = std::make_unique<Engine>(plan, node, machines_[at].pools);
  }
  for (const PlanNode& node : plan.nodes)
    for (std::uint32_t at = 0; reads_clock(plan, node) && at < options.machines; ++at)
      if (engines_[at][node.id]) timed_.emplace_back(node.id, at);
}

wire::Placement Cluster::placement() const {
  wire::Placement placement{nodes_, std::vector<bool>(options_.machines)};
  for (std::uint32_t i = 0; i < options_.machines; ++i)
    placement.homes[i] = i < homes_ || i >= honest_;
  return placement;
}

void Cluster::overhear(const wire::Bytes& bytes) {
  constexpr std::size_t heard_max = 64;
  if (honest_ == options_.machines) return;
  if (heard_.size() < heard_max)
    heard_.push_back(bytes);
  else
    heard_[overheard_ % heard_max] = bytes;
  ++overheard_;
}

void Cluster::make_clocks() {
  const std::int64_t most = options_.faults.drift_ppm;
  if (most == 0) return;
  for (Machine& machine : machines_) {
    machine.clock.ppm = static_cast<std::int64_t>(random_.next() % (2 * most + 1)) - most;
    machine.clock.offset = 1h + draw({0s, 10min});
  }
}

std::chrono::nanoseconds Cluster::draw(const Range& range) {
  const double width = static_cast<double>((range.most - range.least).count());
  return range.least +
         std::chrono::nanoseconds(static_cast<std::int64_t>(width * random_.uniform()));
}

void Cluster::advance(Instant now) {
  for (const auto& [node, at] : timed_)
    if (engines_[at][node]) engines_[at][node]->advance(local(at, now));
}

void Cluster::send(Message* message, std::uint32_t from, Instant now) {
  Machine& here = machines_[from];
  const std::uint32_t to = message->to == entry_node ? message->call.home.machine
                                                     : machine_of(message->to, message->call);
  const bool stranger = is_stranger(message->call);
  if (to >= honest_) return here.pools.give(message);  // it does as if it listened
  const Flight flight = stranger ? no_flight : oracle_.sent(*message);
  if (from == to)
    return agenda_.add(now + draw(options_.link), Event::Kind::message, to,
                       here.pools.self.incarnation, flight, message);
  if (here.peers.is_there(to)) {
    Parcel parcel{{}, here.pools.self, flight};
    parcel.bytes.reserve(256);
    const Result<void> encoded =
        wire::encode(plan_, *message, local(from, now), limits_, parcel.bytes);
    if (!encoded && !stranger) oracle_.violated("W: cannot be sent: " + encoded.error().message);
    if (encoded) overhear(parcel.bytes);
    if (encoded) note_sent(*message, from, to, parcel.bytes.size());
    if (encoded) network_.send(from, to, std::move(parcel), now);
  } else {
    oracle_.lost(flight);
  }
  here.pools.give(message);
}

Message* Cluster::receive(const Event& event, Instant now) {
  if (event.kind == Event::Kind::parcel) return receive_parcel(event, now);
  const auto flight = static_cast<Flight>(event.extra);
  Pools& pools = machines_[event.index].pools;
  if (pools.self.incarnation == event.number && !machines_[event.index].empty) {
    oracle_.arrived(flight);
    return event.pointer;
  }
  oracle_.lost(flight);
  pools.give(event.pointer);
  return nullptr;
}

Message* Cluster::receive_parcel(const Event& event, Instant now) {
  const std::uint32_t to = network_.to_of(event.index);
  Machine& here = machines_[to];
  if (here.empty) return nullptr;
  const Parcel* parcel = network_.take(event, here.peers, now);
  if (parcel == nullptr) return nullptr;
  const Origin from = parcel->from;
  if (from.incarnation < here.told[from.machine])
    oracle_.violated("C18: machine " + std::to_string(to) + " heard a life of machine " +
                     std::to_string(from.machine) + " that it knew to be over");
  if (parcel->back) {
    take_back(*parcel, to);
    return nullptr;
  }
  if (!oracle_.arrived(parcel->flight))
    oracle_.violated("C4: a message is applied twice on link " + std::to_string(event.index));
  Result<Message*> message =
      wire::decode(plan_, parcel->bytes, {from, contract_}, local(to, now), limits_, here.pools);
  if (message) {
    if ((*message)->kind == Message::Kind::frame && here.windows != nullptr)
      took_.push_back({to, {from.machine, (*message)->target, parcel->bytes.size()}});
    return *message;
  }
  if (from.machine >= honest_) {
    ++counts_.forged_refused;
    return nullptr;
  }
  oracle_.violated("W: refused: " + message.error().message);
  return nullptr;
}

void Cluster::wipe(std::uint32_t index) {
  Machine& gone = machines_[index];
  for (const Event& event : gone.deferred)
    if (event.kind == Event::Kind::message) {
      oracle_.lost(static_cast<Flight>(event.extra));
      gone.pools.give(event.pointer);
    }
  std::erase_if(gone.deferred, [](const Event& event) { return event.kind != Event::Kind::call; });
  gone.empty = true;
  make_windows(gone);
  gone.home.reset();
  for (std::uint32_t other = 0; other < size(); ++other)
    if (other != index) network_.drop_from(index, other);
  for (auto& engine : engines_[index]) engine.reset();
}

void Cluster::restart(std::uint32_t index, const std::vector<CallId>& given_up, Effects& effects) {
  Machine& machine = machines_[index];
  const Origin life = machine.pools.self;
  machine.pools.scopes_made = 0;  // its names are new: they have its life in them
  if (index < homes_) make_home(machine);
  machine.empty = machine.away = false;
  for (const NodeId node : nodes_of(index)) {
    engines_[index][node] = std::make_unique<Engine>(plan_, node, machine.pools);
    std::vector<CallId> here;
    for (const CallId& call : given_up)
      if (machine_of(node, call) == index) here.push_back(call);
    engines_[index][node]->forget(here);
  }
  for (std::uint32_t other = 0; other < size(); ++other) {
    if (other == index) continue;
    const Machine& there = machines_[other];
    const Origin known = there.pools.self;
    if (!there.away) machines_[other].peers.joined(life);
    if (there.windows != nullptr) there.windows->forget(index);
    machine.peers.joined(known);
    if (there.away) machine.peers.lost(known);
    machine.told[other] = there.away ? known.incarnation + 1 : known.incarnation;
    if (there.away && machine.home) machine.home->nodes_lost(nodes_of(other), effects, other);
    for (const NodeId node : nodes_of(index))
      if (other < homes_ && machine.told[other] > 1)
        engines_[index][node]->home_lost(
            {other, static_cast<std::uint32_t>(machine.told[other] - 1)}, effects);
  }
}

void Cluster::make_home(Machine& machine) {
  machine.home = std::make_unique<Coordinator>(plan_, machine.pools, nodes_.replicas);
  if (machine.windows != nullptr) machine.home->wait_for_starts();
}

// ---- windows

void Cluster::make_windows(Machine& machine) {
  if (options_.window != 0)
    machine.windows = std::make_unique<Windows>(plan_, stops_, options_.window);
}

void Cluster::note_sent(const Message& message, std::uint32_t from, std::uint32_t to,
                        std::size_t bytes) {
  Windows* const windows = machines_[from].windows.get();
  if (windows == nullptr || message.kind != Message::Kind::frame) return;
  const EdgeId edge = message.target;
  // A stranger's activation asks nobody.
  if (windows->stops(edge) && windows->owed(edge, to) >= options_.window &&
      !is_stranger(message.call))
    oracle_.violated("C24: edge " + std::to_string(edge) + " holds " +
                     std::to_string(windows->owed(edge, to)) + " bytes, and gets another frame");
  windows->sent(edge, to, bytes);
}

void Cluster::take_back(const Parcel& parcel, std::uint32_t machine) {
  const Return& back = *parcel.back;
  if (!machines_[machine].windows->returned(back.edge, parcel.from.machine, back.bytes))
    oracle_.violated("C25: machine " + std::to_string(machine) + " gets back more of edge " +
                     std::to_string(back.edge) + " than it has sent");
}

void Cluster::started(NodeId node, std::uint32_t machine) {
  if (Windows* const windows = machines_[machine].windows.get()) windows->started(node);
}

void Cluster::note_drops(const std::vector<NotStarted>& drops) {
  for (const NotStarted& inputs : drops) {
    if (is_stranger(inputs.call)) continue;
    counts_.dropped += inputs.dropped ? 1 : 0;
    oracle_.not_started(inputs);
  }
}

void Cluster::settle_windows(Instant now) {
  for (const auto& [node, at] : std::exchange(ended_, {}))
    if (Windows* const windows = machines_[at].windows.get()) windows->ended(node);
  for (const Took& took : std::exchange(took_, {}))
    machines_[took.machine].windows->took(took.frame.edge, took.frame.to, took.frame.bytes);
  for (std::uint32_t at = 0; at < honest_; ++at) {
    const Machine& here = machines_[at];
    if (here.windows == nullptr) continue;
    for (const Return& back : here.windows->take_returns())
      if (back.to < honest_ && here.peers.is_there(back.to))
        network_.send(at, back.to, {{}, here.pools.self, no_flight, back}, now);
  }
}

std::string Cluster::lost_of_windows() const {
  std::string text;
  for (std::uint32_t from = 0; from < honest_; ++from)
    for (std::uint32_t to = 0; to < honest_; ++to)
      for (EdgeId edge = 0; edge < plan_.edges.size() && machines_[from].windows != nullptr; ++edge)
        if (const std::uint64_t owed = machines_[from].windows->owed(edge, to),
            kept = machines_[to].windows->kept(edge, from);
            owed != kept)
          text += " of edge " + std::to_string(edge) + " machine " + std::to_string(from) +
                  " misses " + std::to_string(owed) + " bytes, machine " + std::to_string(to) +
                  " has " + std::to_string(kept);
  return text;
}

Instant Cluster::next_deadline() const {
  Instant next = Instant::max();
  const auto consider = [&](const Machine& machine, Instant local) {
    if (local != Instant::max()) next = std::min(next, machine.clock.when(local));
  };
  for (std::uint32_t i = 0; i < homes_; ++i)
    if (const Machine& machine = machines_[i]; machine.home && !machine.paused)
      consider(machine, machine.home->next_deadline());
  for (const auto& [node, at] : timed_)
    if (engines_[at][node] && !machines_[at].paused)
      consider(machines_[at], engines_[at][node]->next_deadline());
  return next;
}

void Cluster::check_left_over() {
  EngineCounts all;
  for (const auto& of_machine : engines_)
    for (const auto& engine : of_machine) {
      if (!engine) continue;
      const EngineCounts counts = engine->counts();
      all.activations += counts.activations;
      all.buckets += counts.buckets;
      all.calls += counts.calls;
    }
  if (all.activations + all.buckets + all.calls != 0)
    oracle_.violated("C10: " + std::to_string(all.activations) + " activations, " +
                     std::to_string(all.buckets) + " buckets and " + std::to_string(all.calls) +
                     " call records are left over");
  if (const std::string leaks = this->leaks(); !leaks.empty())
    oracle_.violated("C10: left over:" + leaks);
  if (const std::string stuck = network_.stuck(); !stuck.empty())
    oracle_.violated("C20: links that say nothing more:" + stuck);
  if (const std::string lost = lost_of_windows(); !lost.empty())
    oracle_.violated("C25: what was sent is not what is kept:" + lost);
}

std::string Cluster::leaks() const {
  std::string text;
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    const Pools& pools = machines_[i].pools;
    const std::size_t left =
        pools.frames.in_use() + pools.scopes.in_use() + pools.messages.in_use();
    if (left != 0)
      text += " " + std::to_string(left) + " frames, scopes and messages on machine " +
              std::to_string(i);
  }
  return text;
}

}  // namespace sluice::sim
