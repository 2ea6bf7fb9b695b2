// An oracle that a test tells what happens, as the simulation would, and what it said to it.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sim/oracle.h"
#include "world.h"

namespace sluice::testing {

using sim::ActivationNumber;
using sim::Flight;
using sim::FrameNumber;

inline Bound bound_to(const std::string& workflow) {
  Bound bound;
  bound.plan = planned(workflow);
  Diagnostics diagnostics;
  bound.script = bind_scenario({}, bound.plan, diagnostics);
  return bound;
}

/// A value of an input field: the frame it stands in.
struct Field {
  const char* name;
  FrameNumber frame;
};

class Watched {
 public:
  explicit Watched(Bound bound) : bound_(std::move(bound)), oracle(bound_.plan, bound_.script) {}

  const Plan& plan() const { return bound_.plan; }
  NodeId node(std::string_view name) const { return bound_.plan.find(name)->id; }
  EdgeId edge(std::string_view from, std::string_view to) const {
    for (const Edge& edge : bound_.plan.edges)
      if (bound_.plan.nodes[edge.from].name == from &&
          (to == "out" ? edge.is_output() : edge.to == node(to)))
        return edge.id;
    FAIL("no edge from " << from << " to " << to);
    return none;
  }
  static CallId id_of(std::size_t call) { return {call + 1, {}}; }

  /// The n-th call begins; the result is its first frame.
  FrameNumber begin(std::size_t call, std::uint64_t session = 0, Instant now = {},
                    Instant allowed = Instant::max()) {
    oracle.call_arrived(call, session);
    oracle.call_named(call, id_of(call), now, allowed);
    return oracle.yielded(oracle.entry_of(call));
  }

  struct How {
    std::size_t call = 0;
    std::uint32_t iteration = 0;
    sim::Token identity = 0;  // 0: another one than ever before
    bool fenced = false;
    std::uint16_t group = 0;
    std::uint32_t replica = 0;
  };
  ActivationNumber start(const char* name, std::initializer_list<Field> fields, How how) {
    std::vector<InputValue>& inputs = inputs_.emplace_back();
    const auto& names = plan().nodes[node(name)].groups[how.group].fields;
    for (const Field& field : fields) {
      const auto found = std::ranges::find(names, field.name);
      REQUIRE(found != names.end());
      inputs.push_back({static_cast<std::uint16_t>(found - names.begin()),
                        sim::token_payload(field.frame, field.frame, 0)});
    }
    StartActivation start;
    start.node = node(name);
    start.group = how.group;
    start.call = id_of(how.call);
    start.iteration = how.iteration;
    start.replica = how.replica;
    start.inputs = inputs;
    const sim::Firing firing = sim::firing_of(plan(), start, how.call);
    return oracle.started(start, firing, how.identity != 0 ? how.identity : ++identities_,
                          how.fenced);
  }
  ActivationNumber start(const char* name, std::initializer_list<Field> fields) {
    return start(name, fields, How());
  }

  Flight send(Message::Kind kind, std::size_t call = 0) {
    Message message;
    message.kind = kind;
    message.call = id_of(call);
    return oracle.sent(message);
  }
  Flight send(EdgeId edge, FrameNumber frame) {
    Frame* made = pools_.new_frame(plan().edges[edge].from, 2);
    made->values[1] = sim::token_payload(7, frame, 0);
    Message message;
    message.target = edge;
    message.call = id_of(0);
    message.frame = FrameRef(made);
    return oracle.sent(message);
  }

  void end_call(std::size_t call, std::optional<FailureKind> failure = {},
                NodeId failed = entry_node, Instant now = {},
                std::vector<std::string> warnings = {}) {
    EndCall end;
    end.call = id_of(call);
    if (failure)
      end.failure =
          std::make_unique<Failure>(Failure{failed, {ErrorCode::unavailable, ""}, *failure});
    end.warnings = std::move(warnings);
    oracle.call_ended(end, now);
  }
  void deliver(FrameNumber frame) {
    oracle.delivered({id_of(0), 0, sim::token_payload(frame, frame, 0)});
  }

  /// What was said since it was last asked for, joined by "; ".
  std::string said() {
    std::string text;
    for (; heard_ < oracle.violations().size(); ++heard_)
      text += (text.empty() ? "" : "; ") + oracle.violations()[heard_];
    return text;
  }

 private:
  Bound bound_;
  Pools pools_;
  std::deque<std::vector<InputValue>> inputs_;
  sim::Token identities_ = 1000;
  std::size_t heard_ = 0;

 public:
  sim::Oracle oracle;
};

}  // namespace sluice::testing
