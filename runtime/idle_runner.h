// Runners whose sessions end by themselves when nobody has called them for a while.
//
// A session that ends so frees what it holds, as `Runner::end_session` does; its next call has a
// warning where the workflow keeps sessions, for it begins anew. Thread: as `Runner`. Owns: a
// thread, which sleeps until the next session is due.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "graph/spec.h"
#include "runtime/runner.h"

namespace sluice {

/// What a workflow says of its sessions.
struct IdleRule {
  std::chrono::milliseconds limit{0};  // zero: they never end by themselves
  bool keeps_sessions = false;         // something of a session goes with its end
};
IdleRule idle_rule(const WorkflowSpec& spec);

/// A rule for each runner; the sessions of all are the same ones. Without any limit they are
/// returned as they are.
std::vector<std::unique_ptr<Runner>> end_idle_sessions(std::vector<std::unique_ptr<Runner>> runners,
                                                       const std::vector<IdleRule>& rules);

}  // namespace sluice
