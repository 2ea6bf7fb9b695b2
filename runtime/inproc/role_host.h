// Role instances and global parameters of the workflows that run in this process, and the lanes
// they run on.
//
// A role (or parameter) that workflows import from the same file is one: one set of instances, one
// model in memory, one session state, however many graphs feed it. Others belong to their workflow.
// Thread: `add` and `run` before anything runs; sessions from any thread. Owns: all of them.
// Source: omni-flow, section 3.1 (graphs share role instances).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "graph/spec.h"
#include "runtime/inproc/lane_threads.h"
#include "runtime/inproc/node_place.h"
#include "runtime/inproc/sessions.h"
#include "runtime/runner.h"

namespace sluice {

/// The same for the same thing: its file and name, or its workflow's number and name.
std::string identity_of(std::size_t workflow, const std::string& name,
                        const std::string& included_from);

/// A role whose replicas are on several machines.
struct SplitRole {
  std::vector<bool> here{};  // by replica; empty: the role is on one machine, or in each call is
  /// Stands for a replica elsewhere. Empty: its nodes' engines are elsewhere, and need none here.
  std::function<RoleInstance(std::uint32_t replica)> stand_in{};
};
using SplitRoles = std::vector<SplitRole>;  // by role; empty: none is

class RoleHost {
 public:
  RoleHost(const Catalog& catalog, RunnerOptions options)
      : catalog_(catalog), options_(std::move(options)) {}

  /// Before `add`, of all workflows in their order, where some roles run in other processes: what
  /// those share with roles of this one, in whichever workflow. `here`: as for `add`; `elsewhere`:
  /// by role, whether it runs in another process; one may do both.
  void expect(const WorkflowSpec& spec, const std::vector<bool>& here,
              const std::vector<bool>& elsewhere);
  /// Where each node of a workflow runs; what is there already is used again. Borrows the plan.
  /// Errors: a plugin or a parameter that cannot be made.
  /// `here`: by role, whether it runs in this process; empty: all do. A node of another process has
  /// no replicas here; a replica that is elsewhere and that nothing stands for has no lane.
  Result<std::vector<NodePlace>> add(const WorkflowSpec& spec, const Plan& plan,
                                     const std::vector<bool>& here = {},
                                     const SplitRoles& split = {});
  Result<void> run();

  /// Of all workflows; whoever drives may outlive the rest of the host.
  const std::shared_ptr<Sessions>& sessions() const { return sessions_; }
  /// Drops what the parameters hold of it. Errors: unavailable while one of its calls is under way.
  Result<void> end_session(const std::string& session);
  /// Of each global parameter that counts anything. After `add`.
  std::vector<ParamCounts> param_counts() const;
  /// Of each global parameter that has a pool of pages; waits at most so long for all of them
  /// together. After `add`.
  std::vector<PoolReport> pools(std::chrono::milliseconds patience) const;

 private:
  Result<void> add_global_param(const GlobalParamSpec& param);
  using Places = std::vector<RolePlace>;  // of a role's replicas
  SessionKeeper* keeper_of(const WorkflowSpec& spec, const RoleSpec& role) const;
  NodePlace place_of(const WorkflowSpec& spec, const PlanNode& node,
                     const std::vector<Places>& of_roles) const;
  Result<std::vector<Places>> add_roles(const WorkflowSpec& spec, const std::vector<bool>& here,
                                        const SplitRoles& split);
  Result<Places> add_role(const WorkflowSpec& spec, const RoleSpec& role, const SplitRole& split);
  Result<RolePlace> add_replica(const WorkflowSpec& spec, const RoleMaking& making,
                                const SplitRole& split);
  Result<RoleMaking> making_of(const WorkflowSpec& spec, const RoleSpec& role) const;
  Lane& lane_for(const WorkflowSpec& spec, const RoleSpec& role, std::uint32_t replica);
  std::string identity(const std::string& name, const std::string& included_from) const {
    return identity_of(workflows_, name, included_from);
  }
  std::string path_of(const std::optional<Name>& model) const {
    return model.has_value() ? (std::filesystem::path(options_.root) / model->text).string()
                             : std::string();
  }

  const Catalog& catalog_;
  const RunnerOptions options_;
  std::size_t expected_ = 0, workflows_ = 0;
  // By identity: the number of the first workflow that has it, and its name. Where files lie may
  // differ from machine to machine, their order does not.
  std::map<std::string, std::string> shared_names_;
  std::set<std::string> shared_;  // identities of what roles of other processes list too
  std::map<std::string, std::unique_ptr<GlobalParam>> global_params_;
  std::vector<std::unique_ptr<RoleSpec>> specs_;  // as the roles know them
  std::map<std::string, Places> places_;
  std::map<std::pair<std::string, std::uint32_t>, Lane*> lane_of_;

  const std::shared_ptr<Sessions> sessions_ = std::make_shared<Sessions>();
  LaneThreads lanes_;  // last: what they run uses all of the above
};

}  // namespace sluice
