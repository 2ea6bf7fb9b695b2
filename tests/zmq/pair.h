// Two peers that face each other without sockets: every parcel is carried, held back or lost by
// the test.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/zmq/peer.h"

namespace sluice::testing {

/// What one side's peer has said, in order.
struct Said {
  std::vector<std::pair<Origin, std::string>> received;
  std::vector<Origin> connected;
  std::vector<std::pair<Origin, std::string>> silent;
  std::vector<Origin> refused;
  std::vector<std::string> notices;
};

/// Machine 1 is dialed, machine 2 dials.
class Pair {
 public:
  explicit Pair(std::size_t window_bytes = std::size_t{64} << 20U);

  links::Peer& peer(unsigned machine) { return *side(machine).peer; }
  Said& said(unsigned machine) { return side(machine).said; }
  links::Instant now() const { return now_; }

  void start();
  /// From `from` to the other, in this life of it.
  void send(unsigned from, std::uint32_t life, const std::string& text);
  void flush(unsigned from);
  void refuse(unsigned by, std::uint32_t life);
  /// Carries the oldest parcel. False: none is on its way.
  bool carry();
  /// Carries all, and lets time pass to whatever is due, until `until`.
  void run(links::Instant until);
  void advance(links::Instant by);
  /// The connection is cut: what is on its way is lost. Only the side that dials is told.
  void cut();
  /// From now on nothing arrives and nothing is told, until `heal`.
  void freeze() { frozen_ = true; }
  void heal();
  /// The process of this machine dies and another life of it begins.
  void restart(unsigned machine, std::uint32_t incarnation);
  /// A parcel that the other side's peer did not make.
  void inject(unsigned to, const links::Head& head, const std::string& body);
  void inject_nonsense(unsigned to);

  /// Time passes and both are told so, though nothing may be due; on the way nothing moves.
  void skip(links::Instant by);
  void acknowledge(unsigned machine);

  /// A line for each effect, where it is set: when, of whom, and all that it says.
  std::vector<std::string>* journal = nullptr;
  std::size_t carried = 0;
  std::size_t most_on_the_way = 0;

 private:
  struct Side {
    std::unique_ptr<links::Peer> peer;
    Origin self;
    Said said;
  };
  struct Parcel {
    unsigned to = 1;
    links::Connection connection = 0;
    wire::Bytes head;
    wire::Bytes body;
  };

  Side& side(unsigned machine) { return machine == 1 ? first_ : second_; }
  links::PeerSettings settings(Origin self) const;
  void act(unsigned machine);
  void perform(unsigned machine, links::Effect& effect);
  void hear(const Parcel& parcel);

  std::size_t window_bytes_;
  Side first_, second_;
  links::Effects effects_;
  std::deque<Parcel> on_the_way_;
  links::Connection open_ = 0;      // as machine 2 counts; machine 1 adds `shift_`
  links::Connection shift_ = 1000;  // grows with each life of machine 2, which counts from 1
  links::Connection hung_up_by_first_ = 0;
  bool frozen_ = false;
  links::Instant now_{std::chrono::hours(1)};
};

}  // namespace sluice::testing
