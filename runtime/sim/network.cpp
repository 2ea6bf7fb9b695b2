#include "runtime/sim/network.h"

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t say_every = 16;  // parcels between two acknowledgements

}  // namespace

Network::Network(const Options& options, Agenda& agenda, SplitMix64& random, Oracle& oracle,
                 FaultCounts& counts)
    : options_(options),
      machines_(options.machines),
      agenda_(agenda),
      random_(random),
      oracle_(oracle),
      counts_(counts),
      links_(std::size_t{options.machines} * options.machines) {}

Network::Link& Network::link_at(std::size_t index) {
  std::unique_ptr<Link>& link = links_[index];
  if (link == nullptr) {
    link = std::make_unique<Link>();
    link->speaker = link->life = {from_of(static_cast<std::uint32_t>(index)), 1};
  }
  return *link;
}

Instant Network::arrival(Instant now) {
  const double width = static_cast<double>((options_.link.most - options_.link.least).count());
  return now + options_.link.least + Instant(static_cast<std::int64_t>(width * random_.uniform()));
}

void Network::send(std::uint32_t from, std::uint32_t to, Parcel parcel, Instant now) {
  const std::uint32_t index = from * machines_ + to;
  const std::uint64_t number = link_at(index).sender.send(std::move(parcel));
  if (link_at(index).connected) post(index, number, now);
}

void Network::post(std::uint32_t index, std::uint64_t number, Instant now) {
  Link& link = link_at(index);
  link.last_arrival = std::max(link.last_arrival + 1ns, arrival(now));
  agenda_.add(link.last_arrival, Event::Kind::parcel, index, number, link.connection);
  if (options_.faults.duplicate > 0 && now < options_.faults.until &&
      random_.uniform() < options_.faults.duplicate) {
    agenda_.add(arrival(link.last_arrival), Event::Kind::parcel, index, number, link.connection);
    ++counts_.duplicates;
  }
}

const Parcel* Network::take(const Event& event, const Membership& peers, Instant now) {
  Link& link = link_at(event.index);
  if (!peers.accepts(link.life) || event.extra != link.heard || event.extra != link.connection ||
      link.cut) {
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
    if (!link_at(back_of(event.index)).cut)
      agenda_.add(arrival(now), Event::Kind::applied, event.index, event.number, link.heard);
  }
  // Bytes on their way stand in the sender's window until it hears that they were applied.
  return &link.sender.item(event.number);
}

void Network::applied(const Event& event) {
  Link& link = link_at(event.index);
  if (event.extra == link.connection) link.sender.applied(event.number);
}

void Network::connect(std::uint32_t index, Instant now) {
  Link& link = link_at(index);
  link.connected = false;
  ++link.connection;
  if (!link.cut && !link_at(back_of(index)).cut)
    agenda_.add(arrival(now), Event::Kind::hello, index, link.speaker.incarnation, link.connection);
}

void Network::hello(const Event& event, Instant now) {
  Link& link = link_at(event.index);
  if (event.extra != link.connection || link.cut || link_at(back_of(event.index)).cut) return;
  // From here on nothing of an earlier connection counts, so the number stays true.
  link.heard = event.extra;
  link.life.incarnation = static_cast<std::uint32_t>(event.number);
  link.unsaid = 0;
  agenda_.add(arrival(now), Event::Kind::welcome, event.index, link.receiver.applied(),
              event.extra);
}

void Network::welcome(const Event& event, Instant now) {
  Link& link = link_at(event.index);
  if (event.extra != link.connection || link.connected || link_at(back_of(event.index)).cut) return;
  link.connected = true;
  link.sender.resume(event.number, [&](std::uint64_t number, const Parcel&) {
    ++counts_.resent;
    post(event.index, number, now);
  });
}

void Network::break_link(std::uint32_t index, Instant now) {
  ++counts_.link_breaks;
  connect(index, now);
}

void Network::cut(std::uint32_t index) {
  link_at(index).cut = true;
  // What is on its way is lost with the connection; the sender goes on to keep what it has to say.
  link_at(index).connected = false;
  ++link_at(index).connection;
}

void Network::heal(std::uint32_t index, Instant now) {
  link_at(index).cut = false;
  connect(index, now);
  const std::uint32_t back = back_of(index);
  if (!link_at(back).connected && !link_at(back).cut) connect(back, now);
}

void Network::drop_from(std::uint32_t from, std::uint32_t to) {
  Link& link = link_at(from * machines_ + to);
  link.sender.reset([&](Parcel& parcel) { oracle_.lost(parcel.flight); });
  link.connected = false;
  ++link.connection;
}

void Network::reset(Origin from, std::uint32_t to, Instant now) {
  drop_from(from.machine, to);
  Link& link = link_at(from.machine * machines_ + to);
  link.speaker = from;
  link.receiver.reset();
  link.unsaid = 0;
  link.heard = link.connection;
  connect(from.machine * machines_ + to, now);
}

std::string Network::stuck() const {
  std::string text;
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == nullptr) continue;
    const Link& link = *links_[i];
    const bool done = link.connected && link.sender.last() == link.receiver.applied();
    if (done || from_of(i) == to_of(i)) continue;
    text += " from machine " + std::to_string(from_of(i)) + " to machine " +
            std::to_string(to_of(i)) + (link.connected ? "" : " (no connection)");
  }
  return text;
}

}  // namespace sluice::sim
