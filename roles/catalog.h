// The plugins a program knows: for each, what it declares and how an instance is made.
//
// Filled by calls, not by globals that register themselves: `add_builtin_plugins` and `add_plugins`
// (plugin/folder.h). Thread: one while it is filled, any afterwards.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/peer_port.h"
#include "base/pool_report.h"
#include "base/result.h"
#include "graph/declaration.h"
#include "graph/spec.h"
#include "roles/role.h"

namespace sluice {

struct PlanNode;
class TextDevice;

/// A session's parameters shared by the roles that list them (e.g. the paged KV store).
class GlobalParam {
 public:
  virtual ~GlobalParam() = default;
  /// Drops what the session holds.
  virtual void end_session(std::string_view session) = 0;
  /// What it has done, for people; names and numbers. Thread: any.
  virtual std::vector<std::pair<std::string, std::uint64_t>> counts() const { return {}; }
  /// Its pool of pages, as it is now; while a forward runs it is waited for at most so long, then
  /// as it was when somebody last asked. None: it has no pool. Thread: any.
  virtual std::optional<PoolReport> pool_report(std::chrono::milliseconds) const { return {}; }
};

/// What a plugin gets when an instance is made. Everything borrowed outlives the instance.
struct RoleMaking {
  const RoleSpec* role = nullptr;
  std::uint32_t replica = 0;
  std::string model_directory;              // empty when the role names no model
  std::vector<GlobalParam*> global_params;  // in the order of the role's `global_params`
  std::uint32_t threads = 1;                // that it may compute on: plugins are told
};

/// Reads the configuration of a checkpoint's directory or GGUF file, and no more: can it be played?
using ModelCheck = std::function<Result<void>(const std::string& path)>;

/// The same for one interface of a plugin that plays checkpoints of several kinds.
using InterfaceCheck =
    std::function<Result<void>(const std::string& path, std::string_view interface)>;

struct Plugin {
  PluginDeclaration declaration;
  std::function<Result<RoleInstance>(const RoleMaking&)> make;
  ModelCheck check_model = {};          // empty: any
  InterfaceCheck check_interface = {};  // empty: all that it declares
  bool shares_over_machines = false;    // where its global parameters can be so shared
};

struct GlobalParamMaking {
  const GlobalParamSpec* spec = nullptr;
  std::string model_directory;
  /// Where processes of this machine share it: what `SharedParam::connect` gave, which whoever
  /// makes the parameter owns from then on. -1: it is of this process alone.
  int shared = -1;
  /// To its like on other machines, whose roles list it too; null: there are none. Outlives it.
  PeerPort* peers = nullptr;
  /// What it is called among `peers`: the same on all machines, and no other parameter's.
  std::string shared_name = {};
};

/// What processes of this machine share of a global parameter: in the process that starts the
/// others, and for longer than they are there. Thread: any.
class SharedParam {
 public:
  virtual ~SharedParam() = default;
  /// For one more life of a process, `name` for people: a socket, the caller's to close. When the
  /// other end of it closes, what that process had is given back.
  virtual Result<int> connect(const std::string& name) = 0;
  /// Puts in what all of them have together of the pool.
  virtual void show(PoolReport& report) const = 0;
};

/// How processes of one machine share global parameters of a kind.
struct ParamSharing {
  ModelCheck check_model;  // whether they can share one of this model
  std::function<Result<std::unique_ptr<SharedParam>>(const GlobalParamMaking&)> make;
};

class Catalog {
 public:
  void add(Plugin plugin);
  void add_global_param(
      std::string kind,
      std::function<Result<std::unique_ptr<GlobalParam>>(const GlobalParamMaking&)> make,
      ModelCheck check_model = {}, ModelCheck check_shared = {});
  void add_sharing(std::string kind, ParamSharing sharing);

  const Plugin* find(std::string_view name) const;
  /// What the plugin of the node's role declares of the interface that the node runs; null:
  /// nothing, any ports.
  const InterfaceDeclaration* interface_of(const WorkflowSpec& spec, const PlanNode& node) const;
  bool has_kind(std::string_view kind) const { return global_params_.contains(kind); }
  /// The check of a kind's `model:`; empty: any.
  ModelCheck model_check_of_kind(std::string_view kind) const;
  /// Whether one of this model can be shared by roles on several machines; empty: none can.
  ModelCheck shared_check_of_kind(std::string_view kind) const;
  /// Null: processes cannot share one.
  const ParamSharing* sharing_of_kind(std::string_view kind) const;
  /// Why roles over the parameter have to be in one process of their machine; empty: they need not.
  std::string why_in_one_process(const GlobalParamSpec& param) const;
  Declarations declarations() const;
  Result<std::unique_ptr<GlobalParam>> make_global_param(const GlobalParamMaking& making) const;

 private:
  std::vector<Plugin> plugins_;
  std::map<std::string,
           std::function<Result<std::unique_ptr<GlobalParam>>(const GlobalParamMaking&)>,
           std::less<>>
      global_params_;
  std::map<std::string, ModelCheck, std::less<>> model_checks_, shared_checks_;  // by kind
  std::map<std::string, ParamSharing, std::less<>> sharing_;                     // likewise
};

/// All of ours, as `sluice roles` lists them. `cuda`: where those run whose `paged_kv` says
/// `device: cuda`; null: the program was built without. It outlives what the catalog makes.
void add_builtin_plugins(Catalog& catalog, const TextDevice* cuda = nullptr);

}  // namespace sluice
