// What an engine asks its driver to do. Data only: the driver performs it, outcomes return as
// events.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/payload.h"
#include "graph/frame.h"

namespace sluice {

/// Names one activation of one node's engine; a stale one is recognised by its generation.
struct ActivationId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  friend bool operator==(ActivationId, ActivationId) = default;
};

/// One value of one input field. Sorted by field, then by logical order.
struct InputValue {
  std::uint16_t field = 0;  // index in the group's fields
  PayloadRef value;
};

/// Run the node's role on these inputs. `inputs` is valid until the activation has ended; the
/// driver may take the values, the engine does not look at them again.
struct StartActivation {
  NodeId node = 0;
  ActivationId activation;
  std::uint16_t group = 0;
  std::uint32_t replica = 0;
  std::uint32_t iteration = 0;  // activations of this node among its ancestors
  CallId call;
  std::uint64_t session = 0;
  std::span<InputValue> inputs;
};

/// The result is no longer wanted; the activation still ends with an event.
struct CancelActivation {
  NodeId node = 0;
  ActivationId activation;
  bool is_late = false;  // by its node's deadline, and so a failure of its own
};

/// Of a node with `on_full: drop_oldest`: inputs that came for it and will not run. For who
/// watches.
struct NotStarted {
  NodeId node = 0;
  CallId call;
  PayloadRef value;      // one of theirs, perhaps none
  bool dropped = false;  // for newer ones; else they are too old, or their call is cancelled
};

struct DeliverOutput {
  CallId call;
  std::uint16_t output = 0;
  PayloadRef value;
};

/// The one terminal outcome of a call.
struct EndCall {
  CallId call;
  std::uint64_t session = 0;
  std::unique_ptr<Failure> failure;  // null: ok
  std::vector<std::string> warnings;
  bool started = false;  // else nothing of it ever ran
};

/// A message that does not go together with those before it: its sender is wrong. Nothing was done
/// with it, so its call cannot end by itself.
struct Refusal {
  CallId call;
  NodeId node = entry_node;  // who refused
  std::string_view what;
};

struct Effects {
  std::vector<Message*> messages;  // owned by the reader, who gives them back to the pools
  std::vector<StartActivation> starts;
  std::vector<CancelActivation> cancels;
  std::vector<DeliverOutput> deliveries;
  std::vector<EndCall> ends;
  std::vector<Refusal> refusals;
  /// Only where somebody watches (`is_watched`): a simulation, or a trace of a run.
  std::vector<NotStarted> not_started;
  bool is_watched = false;
  /// Messages may come from other machines. Within one process a wrong one is a bug of ours.
  bool from_wire = false;

  void refuse(const CallId& call, NodeId node, std::string_view what) {
    SLUICE_CHECK(from_wire, std::string(what));
    refusals.push_back({call, node, what});
  }
  /// True when callers or roles have something to hear, but for starts.
  bool tells() const { return !deliveries.empty() || !ends.empty() || !cancels.empty(); }
  void clear() {
    messages.clear();
    starts.clear();
    cancels.clear();
    deliveries.clear();
    ends.clear();
    refusals.clear();
    not_started.clear();
  }
};

}  // namespace sluice
