// Words of a robot policy's trunk, over the prefix that its actions are made over.
//
// `decode` of a `language_model` over pi0.5: what the robot sees and was told was computed once, by
// `prefill`; the answer forks its pages and goes on behind them, token by token, in the same
// forwards as actions and other robots' prefixes. It is the session's last prefix that it needs
// when it begins; once it has begun, that may be replaced.
// Thread: the role's, in a turn of the engine. Errors: stale (another prefix by now),
// invalid_argument (a policy whose trunk writes no words). Source: OxyGen, sections 4.1 and 4.2.
#pragma once

#include <memory>
#include <vector>

#include "engine/tasks/generation.h"
#include "roles/emissions.h"
#include "roles/policy_kv.h"

namespace sluice {

class PolicyWords {
 public:
  PolicyWords(PolicyKv& kv, PolicyHost& host) : kv_(kv), host_(host) {}

  /// Borrowed until it has ended.
  void admit(Activation& activation) { asked_.push_back({&activation, nullptr, 0, 0}); }
  bool busy() const { return !asked_.empty(); }
  /// Begins what waits, and yields what forwards have brought.
  void advance(SharedEngine::Turn& mine, Emissions& emissions, std::vector<StepOutcome>& ended);
  /// The role goes: so do its answers.
  void leave(SharedEngine::Turn& mine);

 private:
  struct Asked {
    Activation* activation = nullptr;
    std::unique_ptr<GenerationTask> answer;
    TaskId id = 0;
    std::size_t said = 0;  // bytes of the text that have been yielded
  };

  Result<void> begin(Asked& asked, SharedEngine::Turn& mine);
  static void yield_progress(Asked& asked, Emissions& emissions);

  PolicyKv& kv_;
  PolicyHost& host_;
  std::vector<Asked> asked_;
};

}  // namespace sluice
