// Where frames of one scope wait for each other.
//
// A `Bucket` is a join's: it is complete when the shares that came back add up to the scope, in any
// order and through any number of frames. A `CountBucket` is a count group's: it takes frames in
// logical order until each field has its number. Source: omni-flow, section 3.2 (bucket identity
// and triggering), 3.2.3 (multi-stream join); the sum of shares replaces
// required/received/unreachable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/effect.h"
#include "graph/frame.h"
#include "graph/plan.h"
#include "graph/table.h"

namespace sluice {

/// A frame with its place in the logical order of the scope.
struct Arrival {
  EdgeId edge = 0;
  FrameRef frame;
  Share place;
};

/// True when `a` stands before `b`; both belong to one scope, or to refinements of it.
bool is_before(const Share& a, const Share& b);

class Bucket {
 public:
  /// Before the first scope: how its table spreads names that others chose.
  void use(Mix mix) { finer_.use(mix); }
  void open(ScopeRef scope, std::uint64_t session);
  /// A frame, or (without one) a part of the scope that no frame will fill. False when more of the
  /// scope has come than there is: then nothing is kept.
  bool add(EdgeId edge, FrameRef frame, const Share& share);

  bool complete() const { return received_ == share_whole; }
  /// The fields that got a frame, as bits.
  std::uint64_t filled(const Plan& plan) const;

  const ScopeRef& scope() const { return scope_; }
  /// The scope as the part that begins at 0 brought it, with its deposit; null before it came.
  const ScopeRef& deposit() const { return deposit_; }
  std::uint64_t session() const { return session_; }
  /// What its messages brought along; the bucket's owner adds to it.
  Credit& credit() { return credit_; }
  /// The frames in logical order. Leaves the bucket empty.
  void take(std::vector<Arrival>& arrivals);
  void clear();

 private:
  bool credit_share(const Share& share);

  ScopeRef scope_;
  ScopeRef deposit_;
  std::uint64_t session_ = 0;
  std::uint64_t received_ = 0;
  Credit credit_;
  std::vector<Arrival> arrivals_;
  Table<std::uint64_t, ScopeId> finer_;  // refinement's id -> received
};

/// Over one call: what each counted field wants, and what came. Frames arrive in logical order.
class CountBucket {
 public:
  void open(const PlanGroup& group);
  /// Keeps the scope's deposit if the share brings it.
  void take_deposit(const Share& share);
  void clear();
  bool opened() const { return opened_; }
  bool fired() const { return fired_; }
  /// As of `Bucket`.
  const ScopeRef& deposit() const { return deposit_; }

  /// Keeps a frame until its turn comes; the result is the item to put in the line.
  std::uint32_t hold(Arrival arrival);
  /// What `hold` kept.
  Arrival held(std::uint32_t item);
  /// The frame's turn has come.
  void take(Arrival arrival, const PlanGroup& group, const Plan& plan);
  /// Every field has its number. `ended`: no more frames can come.
  bool ready(const PlanGroup& group, bool ended) const;
  /// The inputs of the one firing: of each field the first frames in logical order.
  void fire(const PlanGroup& group, const Plan& plan, std::vector<Arrival>& arrivals,
            std::vector<InputValue>& inputs);
  /// True when the counts are literals and each got its number: then there is nothing to say.
  bool exact(const PlanGroup& group) const;
  /// At the end of the stream: a count whose number did not come exactly once, in words.
  std::optional<std::string> broken(const PlanNode& node, const PlanGroup& group,
                                    const Plan& plan) const;
  /// At the end of the stream: whether there was a frame of any field, and the fields that want
  /// some and got none, as bits.
  bool any_came() const;
  std::uint64_t without_frames(const PlanGroup& group) const;
  /// At the end of the stream: shortages and what was left over, in words.
  std::vector<std::string> warnings(const PlanNode& node, const PlanGroup& group) const;

 private:
  struct Count {
    std::int64_t wanted = -1;  // -1: not known yet, or all
    std::int64_t came = 0;
    std::int64_t numbers = 0;  // how often the number came
  };
  bool opened_ = false;
  bool fired_ = false;
  ScopeRef deposit_;
  std::vector<Count> counts_;      // index = the group's counts
  std::vector<Arrival> arrivals_;  // whose turn has come, in logical order
  std::vector<Arrival> held_;      // index = the line's item
  std::vector<std::uint32_t> free_;
};

/// The scope that a share belongs to, refinements undone.
const Share& outermost(const Share& share);
/// True for the one part of the outermost scope that begins at 0.
bool holds_deposit(const Share& share);

}  // namespace sluice
