// The links between simulated machines: bytes in order, repeated after a break.
//
// One link leads one way; what its two ends know of each other (the connection, how much was
// applied) goes there and back as events, and takes its time. A link that is cut lets nothing
// through. Private to runtime/sim. Source: `runtime/link.h`; docs/SIMULATION.md, "Faults".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "runtime/link.h"
#include "runtime/membership.h"
#include "runtime/sim/agenda.h"
#include "runtime/sim/oracle.h"
#include "runtime/sim/simulation.h"
#include "runtime/windows.h"
#include "runtime/wire/codec.h"

namespace sluice::sim {

/// A message on its way, with the life of the machine that says it; or bytes of a window.
struct Parcel {
  wire::Bytes bytes;
  Origin from;
  Flight flight = 0;
  std::optional<Return> back = std::nullopt;  // then there is no message
};

class Network {
 public:
  Network(const Options& options, Agenda& agenda, SplitMix64& random, Oracle& oracle,
          FaultCounts& counts);

  std::size_t size() const { return links_.size(); }
  std::uint32_t from_of(std::uint32_t link) const { return link / machines_; }
  std::uint32_t to_of(std::uint32_t link) const { return link % machines_; }

  void send(std::uint32_t from, std::uint32_t to, Parcel parcel, Instant now);
  /// What the event brings to a machine with this view of the others; null: nothing that is new, or
  /// of a life that is over. Stays where it is.
  const Parcel* take(const Event& event, const Membership& peers, Instant now);

  void applied(const Event& event);
  void hello(const Event& event, Instant now);
  void welcome(const Event& event, Instant now);

  /// What is on its way is lost; the ends meet again.
  void break_link(std::uint32_t link, Instant now);
  void cut(std::uint32_t link);
  void heal(std::uint32_t link, Instant now);
  bool is_cut(std::uint32_t link) const { return links_[link] != nullptr && links_[link]->cut; }
  std::uint32_t back_of(std::uint32_t link) const {
    return to_of(link) * machines_ + from_of(link);
  }
  /// What this end still wanted to say to the other is void: the other is gone.
  void drop_from(std::uint32_t from, std::uint32_t to);
  /// Both ends begin anew; `from` speaks in this life now.
  void reset(Origin from, std::uint32_t to, Instant now);
  /// When nothing happens any more: the links that still have something to say, in words.
  std::string stuck() const;

 private:
  struct Link {
    LinkSender<Parcel> sender{1 << 20};
    LinkReceiver receiver;
    std::uint64_t connection = 1;  // as the sender knows it
    std::uint64_t heard = 1;       // as the receiver knows it
    Origin speaker;                // whom the connection begins with
    Origin life;                   // as the receiver was told
    bool connected = true;
    bool cut = false;
    Instant last_arrival{};
    std::uint64_t unsaid = 0;  // applied, and not acknowledged yet
  };

  Link& link_at(std::size_t index);
  void post(std::uint32_t link, std::uint64_t number, Instant now);
  void connect(std::uint32_t link, Instant now);
  Instant arrival(Instant now);

  const Options& options_;
  const std::uint32_t machines_;
  Agenda& agenda_;
  SplitMix64& random_;
  Oracle& oracle_;
  FaultCounts& counts_;
  std::vector<std::unique_ptr<Link>> links_;  // from * machines + to; null: not used yet
};

}  // namespace sluice::sim
