// The `paged_kv` of a robot policy: its checkpoint and engine, and the prefix that each session's
// robot acts on.
//
// Shared by the roles that list it, whose works advance together. Where other processes use the
// pages too, each has an engine over them: a prefix is with the process that has read it, which
// offers it to the others under its number. Thread: take a turn of the engine around every use.
// Source: omni-flow, section 4.1; OxyGen, section 4.1 (one prefix, several readers).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/picture/picture_input.h"
#include "engine/policy/flow_policy.h"
#include "engine/tasks/generation.h"
#include "engine/tasks/shared_engine.h"
#include "engine/text/tokenizer.h"
#include "roles/catalog.h"
#include "roles/kv_pages.h"
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
  std::vector<std::int32_t> end_tokens;   // of the trunk's words
  CpuText text;
  SharedEngine shared;
  std::int64_t weights = 0;  // which they are: a prefix is of no use to an expert of others
};

/// What a session's robot sees and was told, last; roles name it by its number, which nobody
/// guesses where other processes act on it.
struct PolicyPrefix {
  KvSequence sequence;
  std::vector<float> last_row;  // what the trunk made of it, normed: words begin with it, if any
  GenerationOptions options;    // of words
  std::uint64_t id = 0;
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
  KvPool& pool() { return *place_.pool; }

  /// Instead of the one before. Returns the frame that names it. Errors: those of `KvPages::offer`;
  /// the one before is there still.
  Result<PayloadRef> keep(std::string_view session, PolicyPrefix prefix);
  /// Null: the session has another by now, or none.
  const PolicyPrefix* find(std::string_view session, std::uint64_t id) const;
  /// The one that the frame names, with a fork of its pages, wherever it was read; null: there is
  /// none. Errors: invalid_argument, stale; those of `KvPages::accept`.
  Result<PolicyPrefix> prefix_of(std::string_view session, const Payload* frame);

 private:
  Result<PolicyPrefix> accept(const Payload& frame);
  void forget(std::string_view session);
  PoolReport report() const;

  KvPlace place_;
  std::unique_ptr<PolicyHost> host_;
  std::map<std::string, PolicyPrefix, std::less<>> prefixes_;
  std::uint64_t next_id_ = 1;
  mutable PoolView view_;
};

}  // namespace sluice
