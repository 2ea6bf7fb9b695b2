// The static plan: everything a workflow's control flow needs at run time, as tables.
//
// `compile` turns a checked spec into edges, roots and the routes that credit takes, and refuses
// graphs that could wait for ever. The engines only look things up.
// Thread: immutable after `compile`. Source: omni-flow, section 3.3; docs/CONTROL_FLOW.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/declaration.h"
#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

using NodeId = std::uint16_t;  // 0 is the entry: the caller's side
using EdgeId = std::uint16_t;
using CollectorId = std::uint16_t;
inline constexpr NodeId entry_node = 0;
inline constexpr std::uint16_t none = 0xffff;
// More than these is an error of the planner. They are in docs/WORKFLOW.md.
inline constexpr std::size_t outputs_per_node_max = 64;  // and inputs of a call: bits of a mask
inline constexpr std::size_t shares_max = 4096;          // that one activation may hold
inline constexpr std::size_t flows_max = std::size_t{1} << 20;  // of all nodes together
inline constexpr std::size_t edges_max = 60'000;
inline constexpr std::size_t joins_max = 4096;  // joins and counts

/// Which source field of a frame becomes which input field of the consumer.
struct FieldMap {
  std::uint16_t from = 0;  // index in the producer's outputs
  std::uint16_t to = 0;    // index in the consumer group's fields
  bool last = true;        // no later map of the edge reads the same output
};

/// From a node to one OR group of a consumer, or to one declared output of the workflow.
struct Edge {
  EdgeId id = 0;
  NodeId from = 0;
  NodeId to = entry_node;                  // entry_node: an output edge
  std::uint16_t group = 0;                 // of `to`, or the output's index
  Mark mark;                               // the first source in the file that asks for it
  std::vector<FieldMap> fields;            // by `to`, then as the file names the sources
  std::uint64_t mask = 0;                  // the producer's fields this edge carries
  bool direct = true;                      // takes a frame only when every input field is in it
  std::vector<std::uint64_t> field_masks;  // per input field: the source fields that provide it
  std::vector<CollectorId> shares;         // the collectors a frame on this edge holds a share of
  std::uint64_t frames_max = 0;            // in one call, where bounded; 0: not bounded
  std::uint64_t bytes_max = 0;             // of those frames' values, likewise

  bool is_output() const { return to == entry_node; }
  /// True when a frame that holds the fields `held` goes along this edge.
  bool takes(std::uint64_t held) const {
    if (!direct || field_masks.size() == 1) return (mask & held) != 0;
    for (const std::uint64_t sources : field_masks)
      if ((sources & held) == 0) return false;
    return true;
  }
};

/// Who waits until no more frames can come.
enum class CollectorKind : std::uint8_t {
  join,    // a bucket per yield of the root: fires once, when complete
  count,   // one bucket per call: fires at its counts, in logical order
  order,   // a queue of a session node: releases in logical order
  output,  // a declared output: delivers in logical order
};

struct Collector {
  CollectorId id = 0;
  CollectorKind kind = CollectorKind::join;
  NodeId owner = 0;          // the node that collects; the entry for outputs
  std::uint16_t group = 0;   // join, count: the OR group; output: its index
  NodeId root = entry_node;  // whose yields (join) or activations (others) open a scope
  bool loops = false;        // order: the owner can reach itself without passing the root
  /// join, count: one that another waits for has the smaller rank. Of those that open with one
  /// yield, the smaller rank stands first in the logical order.
  std::uint16_t rank = 0;
  /// Shares that the scope keeps for the owner's next activation, in this order.
  std::vector<CollectorId> outer;
};

/// How a node divides its share of one collector when it yields a frame.
struct Branch {
  bool through_join = false;   // the share waits in the scope of collector `target`
  std::uint16_t target = 0;    // an edge, or a collector
  std::uint16_t position = 0;  // index in that edge's `shares` or that collector's `outer`
};

struct Flow {
  CollectorId collector = 0;
  /// held: came with what triggered the activation; the other two begin here.
  enum class Kind : std::uint8_t {
    held,
    opened_per_activation,
    opened_per_yield
  } kind = Kind::held;
  std::vector<Branch> branches;
};

struct PlanCount {
  std::uint16_t field = 0;  // index in the group's fields
  enum class Kind : std::uint8_t { literal, runtime, all } kind = Kind::literal;
  std::int64_t literal = 0;
  EdgeId source = none;            // runtime: the edge that brings the number
  std::uint16_t source_field = 0;  // runtime: which of the producer's outputs it is
};

struct PlanGroup {
  std::vector<std::string> fields;
  std::vector<EdgeId> edges;      // incoming
  CollectorId collector = none;   // join or count; none: direct
  std::vector<PlanCount> counts;  // none, or one for each field
  /// Frames of one counted field come over several ways: only their paths tell which is first, so
  /// the group fires at the end of its stream.
  bool by_path = false;
  /// Per field: the only edge that can bring it, or `none`. Such a slot is critical.
  std::vector<EdgeId> critical;
  /// Fields of which the role reads at most one frame (`PortFrames`), and of these those that it
  /// cannot do without; a bit each.
  std::uint64_t single = 0;
  std::uint64_t needed = 0;
};

struct PlanNode {
  NodeId id = 0;
  std::string name;
  std::uint16_t role = 0;      // index in the spec's roles; `none` for the entry
  std::uint16_t executor = 0;  // the role whose executor it runs on (`colocate`), by index
  std::string interface;
  std::string run;  // `role.interface`, as the file says it
  std::vector<std::string> outputs;
  std::uint64_t read = 0;                       // the outputs that an edge carries, as bits
  std::vector<std::uint64_t> output_bytes_max;  // of one value; 0: not bounded
  std::vector<PlanGroup> groups;
  std::vector<EdgeId> edges;  // outgoing
  CollectorId order = none;   // the queue of a session node
  /// Where the queue's share stands among the shares of whatever triggers the node.
  std::uint16_t order_position = none;
  std::uint32_t replicas = 1;
  Balance balance = Balance::round_robin;
  std::vector<Flow> flows;          // held first, in the order of every incoming edge's `shares`
  std::uint16_t held = 0;           // how many of them are held
  std::uint16_t loop_index = none;  // among the nodes that stand in a loop; none: in no loop
  bool skip_errors = false;
  std::uint32_t yields_max = 0;       // most frames of one activation; 0: no bound
  std::uint64_t activations_max = 0;  // in one call, where bounded; 0: not bounded
  /// `limits: frames` bounds what comes to it in one call: it stands in a loop, or frames may
  /// multiply on their way to it.
  bool frames_counted = false;
  /// The outputs that its role yields in one frame, each set as bits; empty: not declared.
  std::vector<std::uint64_t> frames;
  std::uint64_t once = 0;  // outputs that come once in a call, as the role declares; bits
  std::chrono::nanoseconds deadline{};  // of one activation; zero: none
  std::chrono::nanoseconds max_age{};   // of the calls whose frames it takes; zero: any
  /// `on_full: drop_oldest`: how many sets of inputs of one call may wait for it; 0: any number.
  std::uint32_t queue_max = 0;
  NodeId dominator = entry_node;  // immediate; the entry for itself
  Mark mark;

  /// How many activations one set of inputs makes: one on each replica where they are told
  /// (`balance: broadcast`), otherwise one.
  std::uint32_t fan_out() const { return balance == Balance::broadcast ? replicas : 1; }
  /// Where it drops what waits: of how many sets of inputs of a call activations may run.
  std::uint32_t at_once() const {
    return order != none || balance == Balance::broadcast ? 1 : replicas;
  }
};

/// True when a group of the node is a join.
inline bool has_join(const PlanNode& node) {
  for (const PlanGroup& group : node.groups)
    if (group.collector != none && group.counts.empty()) return true;
  return false;
}

struct PlanOutput {
  std::string name;
  std::vector<EdgeId> edges;
  CollectorId collector = none;
};

struct Plan {
  std::string workflow;
  std::vector<std::string> inputs;  // the entry's output fields, in order
  std::vector<ValueType> input_types;
  std::vector<PlanNode> nodes;  // index = NodeId
  std::vector<Edge> edges;
  std::vector<Collector> collectors;
  std::vector<PlanOutput> outputs;
  std::uint16_t loop_nodes = 0;
  bool paths = false;  // frames carry their path: a count group needs it
  WorkflowLimits limits;
  CallMode calls = CallMode::serial;
  bool cancel_on_error = false;

  const PlanNode* find(std::string_view name) const;
};

/// Requires: `spec` passed `check`. Appends what it finds (joins that wait for each other, loops
/// without a way out, too many shares), beside errors that are there already where those have no
/// part in it. The plan is whole only without errors.
Plan compile(const WorkflowSpec& spec, const Declarations& declarations, Diagnostics& diagnostics);

}  // namespace sluice
