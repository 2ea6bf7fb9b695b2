// What a machine has received from the others and not yet dealt with, in the order of each link.
//
// Some of it waits until sessions have ended here: a link as a whole, or on a link what one home
// says or what is of its calls. Nothing else waits for that: another home's calls come by the same
// links. Pure. Thread: one at a time. Bounds: `bytes_max` for each link.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/ids.h"
#include "runtime/transport.h"

namespace sluice {

struct Parcel {
  Origin from;
  Channel channel = Channel::message;
  MessageBytes bytes;
};

class Received {
 public:
  static constexpr std::size_t bytes_max = std::size_t{64} << 20U;

  explicit Received(std::size_t machines) : links_(machines) {}

  /// False: too much of this link waits. One is always taken.
  bool add(Parcel parcel) {
    Link& link = links_[parcel.from.machine];
    const std::size_t size = size_of(parcel);
    if (link.bytes != 0 && link.bytes + size > bytes_max) return false;
    link.bytes += size;
    order_.push_back(parcel.from.machine);
    link.parcels.push_back(std::move(parcel));
    return true;
  }
  /// The next that nothing holds up. One of `done`, `hold_link` and `hold` follows.
  std::optional<Parcel> next() {
    while (!order_.empty()) {
      Link& link = links_[order_.front()];
      order_.pop_front();
      if (link.waits || link.parcels.empty()) continue;
      Parcel parcel = std::move(link.parcels.front());
      link.parcels.pop_front();
      return parcel;
    }
    return {};
  }
  /// Something of a home waits on this link.
  bool holds_any(std::uint32_t from) const { return !links_[from].held.empty(); }
  bool holds(std::uint32_t from, std::uint32_t home) const {
    return links_[from].held.contains(home);
  }
  /// `size`: see `size_of`.
  void done(std::uint32_t from, std::size_t size) { links_[from].bytes -= size; }
  /// It waits, and so does the rest of its link.
  void hold_link(Parcel parcel) {
    Link& link = links_[parcel.from.machine];
    link.parcels.push_front(std::move(parcel));
    link.waits = true;
  }
  /// It waits, and so does what else is of this home on its link.
  void hold(std::uint32_t home, Parcel parcel) {
    links_[parcel.from.machine].held[home].push_back(std::move(parcel));
  }
  /// A session of this home has ended here: what waits may go on.
  void go_on(std::uint32_t home) {
    for (std::uint32_t from = 0; from < links_.size(); ++from) {
      Link& link = links_[from];
      std::size_t more = std::exchange(link.waits, false) ? link.parcels.size() : 0;
      if (auto held = link.held.extract(home)) {
        more += held.mapped().size();
        for (auto one = held.mapped().rbegin(); one != held.mapped().rend(); ++one)
          link.parcels.push_front(std::move(*one));
      }
      order_.insert(order_.end(), more, from);
    }
  }
  static std::size_t size_of(const Parcel& parcel) {
    return parcel.bytes.size() + sizeof(Parcel);
  }

 private:
  struct Link {
    std::deque<Parcel> parcels;
    std::map<std::uint32_t, std::deque<Parcel>> held;  // by home
    std::size_t bytes = 0;                             // of all these, and of one in hand
    bool waits = false;
  };
  std::vector<Link> links_;         // by machine
  std::deque<std::uint32_t> order_;  // links: once at least for each parcel that does not wait
};

}  // namespace sluice
