// The `paged_kv` of a model that answers and draws: its checkpoint and engine, the page pool, and
// each session's conversation.
//
// Shared by the roles that list it, whose words and drawings advance together. Thread: take a turn
// of `engine` around every use; the roles may run on different threads.
// Source: omni-flow, section 4.1 (global params pool) and 5.3 (the diffusion model on the LLM's
// KV).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/family/model.h"
#include "engine/tasks/shared_engine.h"
#include "engine/text/tokenizer.h"
#include "roles/catalog.h"
#include "roles/engine_options.h"
#include "roles/kv_pages.h"
#include "roles/pool_view.h"

namespace sluice {

/// What a session has said so far.
struct Conversation {
  /// What stood before the last turn, to go back to when it fails or is never answered.
  struct Before {
    std::size_t tokens = 0;
    std::vector<std::int32_t> unwritten;
    Tensor latents;
  };
  /// What the last turn stands in place of.
  struct Replaced {
    KvSequence sequence;
    std::vector<std::int32_t> unwritten;
    Tensor latents;
    std::vector<Before> turns;
  };
  std::uint64_t id = 0;  // a session that ends and begins anew is another one
  KvSequence sequence;   // while it is not with an answer
  std::optional<std::string> tenant{};  // whose it is, as its first call said; none has come yet
  bool is_answering = false;
  Nanoseconds used = 0;  // when a role last asked for it
  std::vector<std::int32_t>
      unwritten;         // tokens of the last turn that the next forward writes first
  bool in_turn = false;  // <user> stands, <assistant> does not yet
  Tensor latents;        // of the last picture, for a drawing that starts from it
  Before before;
  std::vector<Before> turns;         // what stood before each that was answered
  std::optional<Replaced> replaced;  // until that turn is answered
  std::uint64_t call = 0;            // whose turn the last one is
  std::uint64_t failed_call = 0;     // whose turn failed: the rest of it is refused
  std::uint64_t refused_call = 0;    // another tenant's: so is the rest of that
  std::uint64_t offered = 0;         // under which it is offered for a drawing; 0: it is not
};

/// The checkpoint and its engine: one for all roles and replicas over the same pages.
struct DrawingHost {
  DrawingHost(Model loaded, Tokenizer words, KvPool& pool, const PlannerOptions& options)
      : model(std::move(loaded)),
        tokenizer(std::move(words)),
        step_rows(options.budget),
        text(model.text(), pool),
        shared(text, options) {}
  DrawingHost(const DrawingHost&) = delete;
  DrawingHost& operator=(const DrawingHost&) = delete;

  const TurnTokens& turns() const { return *model.architecture().turns; }

  Model model;
  Tokenizer tokenizer;
  std::uint32_t step_rows;
  CpuText text;
  SharedEngine shared;
};

class PagedKv final : public GlobalParam {
 public:
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making);

  /// Waits for the forward under way. What a task still holds goes when the task ends.
  void end_session(std::string_view session) override;
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override;

  /// Loads the checkpoint for the first role that asks. Errors: invalid_argument (another directory
  /// than the pages are for, other options than the first role's); those of loading.
  Result<DrawingHost*> host(const std::string& directory, const EngineOptions& options);
  const std::string& directory() const { return place_.directory; }
  KvPool& pool() { return *place_.pool; }

  /// For what follows: whose turn of the engine it is.
  Conversation& conversation(std::string_view session);
  /// Gives a sequence back to the conversation it was taken from; false: that has ended, and the
  /// pages are free.
  bool give_back(std::string_view session, std::uint64_t id, KvSequence sequence);
  /// For a drawing: the number under which `prompt_of` has the conversation as it stands, in
  /// another process too, until the session's next turn. Errors: those of `KvPages::offer`.
  Result<std::uint64_t> offer(Conversation& conversation);
  void withdraw(Conversation& conversation);
  /// What a drawing reads, which has `length` tokens; `offered`: what `offer` gave. Errors: stale.
  Result<KvSequence> prompt_of(std::string_view session, std::size_t length, std::uint64_t offered);

 private:
  PoolReport report() const;

  KvPlace place_;
  std::unique_ptr<DrawingHost> host_;
  std::map<std::string, Conversation, std::less<>> conversations_;
  std::uint64_t next_id_ = 1;
  mutable PoolView view_;
};

/// The role's shared parameter of this kind. Errors: invalid_argument, naming the role.
Result<PagedKv*> paged_kv_of(const RoleMaking& making);

}  // namespace sluice
