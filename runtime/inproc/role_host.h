// Role instances and global parameters of the workflows that run in this process, and the lanes
// they run on.
//
// A role (or parameter) that workflows import from the same file is one: one set of instances, one
// model in memory, one session state, however many graphs feed it. Others belong to their workflow.
// Thread: `add` and `run` before anything runs; sessions from any thread. Owns: all of them.
// Source: omni-flow, section 3.1 (graphs share role instances).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/spec.h"
#include "runtime/inproc/lane.h"
#include "runtime/runner.h"

namespace sluice {

/// Where a replica of a role runs.
struct RolePlace {
  Lane* lane = nullptr;
  std::size_t instance = 0;
};

class RoleHost {
 public:
  RoleHost(const Catalog& catalog, RunnerOptions options)
      : catalog_(catalog), options_(std::move(options)) {}

  /// Places of a workflow's roles, by role, then replica; what is there already is used again.
  /// Errors: a plugin or a parameter that cannot be made.
  Result<std::vector<std::vector<RolePlace>>> add(const WorkflowSpec& spec);
  void run();

  /// A call of the session, in any of the workflows.
  void call_begins(const std::string& session);
  void call_ended(const std::string& session);
  /// Drops what the parameters hold of it. Errors: unavailable while one of its calls is under way.
  Result<void> end_session(const std::string& session);

 private:
  Result<void> add_global_param(const GlobalParamSpec& param);
  Result<std::vector<RolePlace>> add_role(const WorkflowSpec& spec, const RoleSpec& role);
  Result<RoleMaking> making_of(const WorkflowSpec& spec, const RoleSpec& role) const;
  Lane& lane_for(const WorkflowSpec& spec, const RoleSpec& role, std::uint32_t replica);
  /// The same for the same thing: its file and name, or its workflow's number and name.
  std::string identity(const std::string& name, const std::string& included_from) const;
  std::string path_of(const std::optional<Name>& model) const {
    return model.has_value() ? (std::filesystem::path(options_.root) / model->text).string()
                             : std::string();
  }

  const Catalog& catalog_;
  const RunnerOptions options_;
  std::size_t workflows_ = 0;
  std::map<std::string, std::unique_ptr<GlobalParam>> global_params_;
  std::vector<std::unique_ptr<RoleSpec>> specs_;  // as the roles know them
  std::map<std::string, std::vector<RolePlace>> places_;
  std::map<std::pair<std::string, std::uint32_t>, Lane*> lane_of_;
  std::vector<std::unique_ptr<Lane>> lanes_;

  std::mutex sessions_mutex_;
  std::map<std::string, std::size_t> under_way_;  // calls of each session
};

}  // namespace sluice
