// The `paged_kv` of a robot policy: its checkpoint and engine, and the prefix that each session's
// robot acts on.
//
// Shared by the roles that list it, whose works advance together. Thread: take a turn of the engine
// around every use. Source: omni-flow, section 4.1; OxyGen, section 4.1 (one prefix, several
// readers).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/picture/picture_input.h"
#include "engine/policy/flow_policy.h"
#include "engine/tasks/shared_engine.h"
#include "engine/text/tokenizer.h"
#include "roles/catalog.h"
#include "roles/pool_view.h"

namespace sluice {

/// The checkpoint and its engine: one for all roles and replicas over the same pages.
struct PolicyHost {
  PolicyHost(Model loaded, KvPool& pool, std::uint32_t rows, const PlannerOptions& options)
      : model(std::move(loaded)),
        step_rows(rows),
        text(model.text(), pool),
        shared(text, options) {}
  PolicyHost(const PolicyHost&) = delete;
  PolicyHost& operator=(const PolicyHost&) = delete;

  Model model;
  std::uint32_t step_rows;
  FlowPolicy policy;
  PictureSteps pictures;
  Result<Tokenizer> tokenizer = Error{};  // why there is none, when there is none: tokens only
  CpuText text;
  SharedEngine shared;
};

/// What a session's robot sees and was told, last; roles name it by its number.
struct PolicyPrefix {
  std::uint64_t id = 0;
  KvSequence sequence;
  Nanoseconds used = 0;  // when it was kept
};

class PolicyKv final : public GlobalParam {
 public:
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making);

  /// Waits for the forward under way.
  void end_session(std::string_view session) override;
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override;

  /// Loads the checkpoint for the first role that asks. Errors: invalid_argument (another directory
  /// than the pages are for, other options than the first role's); those of loading.
  Result<PolicyHost*> host(const std::string& directory, kernels::WeightFormat format,
                           const PlannerOptions& options);
  KvPool& pool() { return *pool_; }

  /// Instead of the one before. Returns its number.
  std::uint64_t keep(std::string_view session, KvSequence sequence);
  /// Null: the session has another by now, or none.
  const KvSequence* find(std::string_view session, std::uint64_t id) const;

 private:
  PoolReport report() const;

  std::string name_, directory_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<PolicyHost> host_;
  std::map<std::string, PolicyPrefix, std::less<>> prefixes_;
  std::uint64_t next_id_ = 1;
  mutable PoolView view_;
};

}  // namespace sluice
