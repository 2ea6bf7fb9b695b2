// One machine of a cluster: its roles, its engines, and its way to the others.
//
// A home is where callers are: it has a runner for each workflow. One machine, a home or not, is
// the keeper: it decides who is a member (`runtime/members.h`). When another machine's life is over
// (the keeper is lost, or has declared it lost) it forgets the calls and begins another life in
// place; its roles and their models stay. Thread: all of it from any. Owns: everything below.
// Source: omni-flow, section 3.4 (instances); docs/CLUSTER.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pool_report.h"
#include "base/result.h"
#include "graph/replica_units.h"
#include "runtime/node/roster.h"
#include "runtime/runner.h"
#include "runtime/transport.h"

namespace sluice {

/// A transport for this machine in this life.
using Connect = std::function<Result<std::unique_ptr<Transport>>(Origin self)>;

struct NodeOptions {
  std::vector<std::string> machines;  // names, by number
  std::uint32_t self = 0;
  std::uint32_t keeper = 0;             // keeps the list of who is there
  std::vector<std::uint32_t> homes{0};  // where calls begin
  /// By workflow, then by role. Requires: roles that share memory (`roles_together`) are on the
  /// same machines, and no workflow has more than `choices_max` choices; a role whose replicas are
  /// divided (graph/replica_split.h) has no fewer than machines, and shares no memory.
  std::vector<RoleMachines> placed;
  Connect connect;
  /// Of each edge between two machines, the same on all of them: bytes of frames that are sent and
  /// not yet taken. 0: as many as suit the number of edges.
  std::size_t window_bytes = 0;
  /// Of each workflow, that a home may have and has not ended; the same on all machines, which
  /// refuse who names twice as many of one home.
  std::size_t sessions_max = std::size_t{1} << 20U;
  /// Of this machine's first life; above those of all its earlier ones.
  std::uint32_t incarnation = 1;
  RunnerOptions runner;
  /// Takes a line about machines that come and go. Empty: nobody reads it. Thread: any.
  std::function<void(const std::string&)> notice;

  std::vector<bool> are_homes() const {
    std::vector<bool> are(machines.size());
    for (const std::uint32_t home : homes) are[home] = true;
    return are;
  }
};

/// What a machine can say of the cluster, and of what it has in hand.
struct NodeStatus {
  struct Machine {
    /// As the keeper decided; of the keeper itself, by the others: whether they are let in.
    Roster::Row known;
    std::optional<LinkState> link;  // nothing: its own row, or no transport yet
  };
  Roster::Time now{};               // when this was true
  Origin self;                      // its present life
  std::uint32_t lives = 0;          // that the process has begun
  bool let_in = false;              // as at `Node::wait_for_members`; of the keeper: always
  bool over = false;                // the present life is, and the next one has not begun
  std::vector<Machine> machines;    // by number
  RunnerCounts counts;              // of all workflows; `calls` are those begun here
  std::vector<ParamCounts> params;  // global parameters here that count something
};

class Node {
 public:
  /// Makes the roles that live here, then meets the others. Borrows the catalog until it ends.
  /// Errors: a role or a parameter that cannot be made, or what `connect` says.
  static Result<std::unique_ptr<Node>> create(std::span<const Graph> graphs, const Catalog& catalog,
                                              NodeOptions options);
  virtual ~Node() = default;

  /// At a home: of each workflow, until the node ends. When a life of the machine is over, calls
  /// that had begun end, and none begins until the next one is let in.
  virtual Runner& runner(std::size_t workflow) = 0;
  /// At the keeper and at homes: until all machines are there that are no homes or have roles.
  /// Elsewhere: until the keeper and the homes have let this one in.
  /// `look` is asked with the names of who is missing every 50 ms or less; its error ends the wait.
  /// Errors: deadline, which names who is missing; what `look` says.
  using Look = std::function<Result<void>(const std::vector<std::string>& missing)>;
  virtual Result<void> wait_for_members(std::chrono::milliseconds patience,
                                        const Look& look = {}) = 0;
  /// How many lives it has begun.
  virtual std::uint32_t lives() const = 0;
  /// Never waits for roles or other machines; not from an observer or a notice.
  virtual NodeStatus status() const = 0;
  /// Of each pool of pages here. Waits at most so long for forwards under way; a pool whose forward
  /// takes longer is told as it was when somebody last asked.
  virtual std::vector<PoolReport> pools(std::chrono::milliseconds patience) const = 0;
};

/// Quarters of a second since 2025, by the machine's clock.
std::uint32_t incarnation_now();
/// An incarnation above those of all earlier processes of a machine: of the next quarter of a
/// second, for which it waits. So a process that follows another at once has not the same one.
std::uint32_t new_incarnation();

}  // namespace sluice
