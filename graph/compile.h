// The steps of `compile`, one file each; private to graph/.
#pragma once

#include <string>
#include <vector>

#include "graph/dominators.h"
#include "graph/plan.h"

namespace sluice::compiling {

/// Where a name is wrong, so that an edge is missing; nothing after a check without errors.
struct Doubts {
  std::vector<bool> nodes;  // by id: a group of it lacks a source
  bool any = false;         // of them, or of the outputs
};
Doubts doubts_of(const WorkflowSpec& spec, const Plan& plan);

/// Nodes, groups and edges from names. Adds `inputs` as node 0. False, with errors and after the
/// nodes, where their fields do not fit.
bool resolve(const WorkflowSpec& spec, const Declarations& declarations, Plan& plan,
             Diagnostics& diagnostics);

/// False, with errors, where the tables have no room: for the fields of a node, for edges and
/// joins.
bool fields_fit(const WorkflowSpec& spec, const Plan& plan, Diagnostics& diagnostics);
bool edges_fit(const Plan& plan, Diagnostics& diagnostics);

/// Dominators over nodes; a count node hangs directly under the entry.
Dominators dominators_of(const Plan& plan);

/// One collector per join, count group, session queue and output, each with its root.
void place_collectors(const Dominators& dominators, Plan& plan);

/// Loops: numbers their nodes; refuses those without a way out and counts that stand in one.
void check_loops(Plan& plan, const Dominators& dominators, const Doubts& doubts,
                 Diagnostics& diagnostics);

/// Refuses joins that can wait for ever, for themselves or for each other: each circle once.
void check_waits(const Plan& plan, const Doubts& doubts, Diagnostics& diagnostics);

/// Ranks joins and counts, so that each comes after all that it waits for. The order of declaration
/// has no part in it. Requires: `check_waits` found nothing.
void rank_joins(Plan& plan);

/// The most activations and frames of a call, where the roles' declarations bound them.
void bound_frames(Plan& plan);
/// Of nodes that run on each replica and get all back that the replicas make: with each turn of
/// such a loop there is more.
void warn_of_growing_loops(const Plan& plan, Diagnostics& diagnostics);
/// Of loops of roles that yield one frame for one, where each such frame leads round again: only
/// the limit of their turns ends them.
void warn_of_endless_loops(const Plan& plan, Diagnostics& diagnostics);
/// Of nodes that wait for more frames than can come: they never run.
void warn_of_counts_too_large(const Plan& plan, Diagnostics& diagnostics);

/// Of nodes that drop what waits (`on_full`), and never have as many frames that they would.
void warn_of_empty_queues(const Plan& plan, Diagnostics& diagnostics);

/// Of joins whose fields come of different frames of their root, where the role's declaration says
/// which frames those are: they never run.
void warn_of_joins_apart(const WorkflowSpec& spec, const Declarations& declarations,
                         const Plan& plan, Diagnostics& diagnostics);

/// Which shares each edge carries, and how each node divides what it holds.
void route_shares(const Dominators& dominators, Plan& plan, Diagnostics& diagnostics);

/// The nodes from which `targets` can be reached over `edges` without passing `root` (which may be
/// where such a path begins).
std::vector<bool> upstream_of(const std::vector<std::vector<NodeId>>& predecessors,
                              const std::vector<NodeId>& targets, NodeId root);

/// Predecessors over all edges between nodes.
std::vector<std::vector<NodeId>> predecessors_of(const Plan& plan);

/// "a -> b -> c": a shortest path over the plan's edges that does not pass `avoid`.
std::string path_text(const Plan& plan, NodeId from, NodeId to, NodeId avoid);

}  // namespace sluice::compiling
