#include "runtime/sim/cluster.h"

#include "base/check.h"

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t say_every = 16;  // parcels between two acknowledgements

}  // namespace

Cluster::Cluster(const Plan& plan, const Options& options, Pools& pools, Agenda& agenda,
                 SplitMix64& random, Oracle& oracle, FaultCounts& counts)
    : plan_(plan),
      options_(options),
      pools_(pools),
      agenda_(agenda),
      random_(random),
      oracle_(oracle),
      counts_(counts),
      machines_(options.machines),
      links_(std::size_t{options.machines} * options.machines) {
  engines_.resize(plan.nodes.size());
  for (const PlanNode& node : plan.nodes) {
    const bool entry = node.id == entry_node;
    machine_of_.push_back(entry ? 0 : (node.executor + 1U) % options.machines);
    if (!entry) engines_[node.id] = std::make_unique<Engine>(plan, node.id, pools);
    if (node.deadline != Instant{} || node.max_age != Instant{}) timed_.push_back(node.id);
  }
}

std::vector<NodeId> Cluster::nodes_of(std::uint32_t machine) const {
  std::vector<NodeId> nodes;
  for (const PlanNode& node : plan_.nodes)
    if (node.id != entry_node && machine_of_[node.id] == machine) nodes.push_back(node.id);
  return nodes;
}

std::chrono::nanoseconds Cluster::draw(const Range& range) {
  const double width = static_cast<double>((range.most - range.least).count());
  return range.least +
         std::chrono::nanoseconds(static_cast<std::int64_t>(width * random_.uniform()));
}

void Cluster::send(Message* message, std::uint32_t from, Instant now) {
  const std::uint32_t to = machine_of_[message->to];
  oracle_.sent(*message);
  if (from == to) {
    agenda_.add({now + draw(options_.link), next_tie(), Event::Kind::message, to,
                 machines_[to].incarnation, 0, message});
    return;
  }
  const std::uint32_t link = from * options_.machines + to;
  if (machines_[to].away || machines_[from].away) return give(message);
  post(link, links_[link].sender.send(message), now);
}

void Cluster::post(std::uint32_t index, std::uint64_t number, Instant now) {
  Link& link = links_[index];
  link.last_arrival = std::max(link.last_arrival + 1ns, now + draw(options_.link));
  const Event parcel{link.last_arrival, next_tie(), Event::Kind::parcel, index, number,
                     link.connection,   nullptr};
  agenda_.add(parcel);
  if (options_.faults.duplicate > 0 && now < options_.faults.until &&
      random_.uniform() < options_.faults.duplicate) {
    Event again = parcel;
    again.at += draw(options_.link);
    again.tie = next_tie();
    agenda_.add(again);
    ++counts_.duplicates;
  }
}

Message* Cluster::receive(const Event& event, Instant now) {
  if (event.kind == Event::Kind::message) {
    if (machines_[event.index].incarnation == event.number) return event.pointer;
    give(event.pointer);
    return nullptr;
  }
  Link& link = links_[event.index];
  if (event.extra != link.connection) {
    ++counts_.fenced;
    return nullptr;
  }
  switch (link.receiver.take(event.number)) {
    case LinkReceiver::Verdict::duplicate:
      return nullptr;
    case LinkReceiver::Verdict::gap:
      oracle_.violated("C4: a message is missing on link " + std::to_string(event.index));
      return nullptr;
    case LinkReceiver::Verdict::apply:
      break;
  }
  if (++link.unsaid == say_every) {
    link.unsaid = 0;
    agenda_.add({now + draw(options_.link), next_tie(), Event::Kind::applied, event.index,
                 event.number, link.connection, nullptr});
  }
  // The simulated sender's copy is the message itself: taken here, and never looked at again.
  return link.sender.item(event.number);
}

void Cluster::applied(const Event& event) {
  Link& link = links_[event.index];
  if (event.extra == link.connection) link.sender.applied(event.number);
}

void Cluster::give(Message* message) {
  oracle_.arrived(*message);
  pools_.give(message);
}

void Cluster::break_link(std::uint32_t index, Instant now) {
  Link& link = links_[index];
  ++link.connection;
  ++counts_.link_breaks;
  link.unsaid = 0;
  link.sender.resume(link.receiver.applied(), [&](std::uint64_t number, Message*) {
    ++counts_.resent;
    post(index, number, now);
  });
}

void Cluster::wipe(std::uint32_t machine) {
  Machine& gone = machines_[machine];
  ++gone.incarnation;
  for (const Event& event : gone.deferred)
    if (event.kind == Event::Kind::message) give(event.pointer);
  gone.deferred.clear();
  for (std::uint32_t other = 0; other < options_.machines; ++other) {
    if (other == machine) continue;
    for (const std::uint32_t index :
         {machine * options_.machines + other, other * options_.machines + machine}) {
      Link& link = links_[index];
      ++link.connection;
      link.sender.applied(link.receiver.applied());
      link.sender.reset([&](Message* message) { give(message); });
      link.receiver.reset();
      link.unsaid = 0;
    }
  }
  // Deferred parcels of the others are of old connections now, and drop when they come.
  for (const NodeId node : nodes_of(machine)) engines_[node].reset();
}

void Cluster::restart(std::uint32_t machine, const std::vector<CallId>& given_up) {
  for (const NodeId node : nodes_of(machine)) {
    engines_[node] = std::make_unique<Engine>(plan_, node, pools_);
    engines_[node]->forget(given_up);
  }
}

Instant Cluster::next_deadline() const {
  Instant next = Instant::max();
  for (const NodeId node : timed_)
    if (engines_[node] && !machines_[machine_of_[node]].paused)
      next = std::min(next, engines_[node]->next_deadline());
  return next;
}

EngineCounts Cluster::engine_counts() const {
  EngineCounts all;
  for (const auto& engine : engines_) {
    if (!engine) continue;
    const EngineCounts counts = engine->counts();
    all.activations += counts.activations;
    all.buckets += counts.buckets;
    all.calls += counts.calls;
  }
  return all;
}

}  // namespace sluice::sim
