// The `paged_kv` of a model that answers and draws: its checkpoint and engine, the page pool, and
// each session's conversation.
//
// Sessions share the pages of what begins alike, as chats do: what a drawing writes is never
// shared. Shared by the roles that list it, whose words and drawings advance together. Thread: take
// a turn of `engine` around every use; the roles may run on different threads. Source: omni-flow,
// section 4.1 (global params pool) and 5.3 (the diffusion model on the LLM's KV).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/family/model.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/generation.h"
#include "engine/tasks/preloader.h"
#include "engine/tasks/shared_engine.h"
#include "engine/text/tokenizer.h"
#include "roles/catalog.h"
#include "roles/engine_options.h"
#include "roles/kv_pages.h"
#include "roles/pool_view.h"

namespace sluice {

/// The rows of a conversation, and what decided them, by which others find their pages.
struct WrittenRows {
  KvSequence sequence;
  std::vector<std::int32_t> history;  // a token for each row
  RowsOrigin origin;

  /// Behind these none is written.
  void forget_unwritten();
  /// Forgets all but the first. Requires: there are so many.
  void cut(KvPages& pages, std::size_t rows);
};

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
    WrittenRows written;
    std::vector<std::int32_t> unwritten;
    Tensor latents;
    std::vector<Before> turns;
  };
  std::uint64_t id = 0;  // a session that ends and begins anew is another one
  WrittenRows written;   // while it is not with an answer
  std::optional<std::string> tenant{};  // whose it is, as its first call said; none has come yet
  bool is_answering = false;
  Nanoseconds used = 0;  // when a role last asked for it
  std::vector<std::int32_t>
      unwritten;         // tokens of the last turn that the next forward writes first
  bool in_turn = false;  // <user> stands, <assistant> does not yet
  Tensor latents;        // of the last picture, for a drawing that starts from it
  Before before;
  ReadAhead prompt;  // of the turn: what its pieces had computed so far, and what was brought
  std::vector<Before> turns;         // what stood before each that was answered
  std::optional<Replaced> replaced;  // until that turn is answered
  std::uint64_t call = 0;            // whose turn the last one is
  std::uint64_t failed_call = 0;     // whose turn failed: the rest of it is refused
  std::uint64_t refused_call = 0;    // another tenant's: so is the rest of that
  std::uint64_t offered = 0;         // under which it is offered for a drawing; 0: it is not
};

/// The checkpoint and its engine: one for all roles and replicas over the same pages.
struct DrawingHost {
  DrawingHost(Model loaded, Tokenizer words, std::string named, KvPool& pool,
              const PlannerOptions& options)
      : model(std::move(loaded)),
        tokenizer(std::move(words)),
        identity(std::move(named)),
        step_rows(options.budget),
        text(model.text(), pool),
        shared(text, options) {}
  DrawingHost(const DrawingHost&) = delete;
  DrawingHost& operator=(const DrawingHost&) = delete;

  const TurnTokens& turns() const { return *model.architecture().turns; }

  Model model;
  Tokenizer tokenizer;
  std::string identity;  // of its rows
  std::uint32_t step_rows;
  CpuText text;
  SharedEngine shared;
};

class PagedKv final : public GlobalParam {
 public:
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making);

  /// Waits for the forward under way. What a task still holds goes when the task ends.
  void end_session(std::string_view session) override;
  std::vector<std::pair<std::string, std::uint64_t>> counts() const override {
    return counts_of(kept_);
  }
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override;

  /// Loads the checkpoint for the first role that asks. Errors: invalid_argument (another directory
  /// than the pages are for, other options than the first role's); those of loading.
  Result<DrawingHost*> host(const std::string& directory, const EngineOptions& options);
  const std::string& directory() const { return directory_; }
  KvPool& pool() { return *kept_.pool; }
  /// Null: the pages are in memory alone.
  const KvTier* tier() const { return kept_.tier.get(); }

  /// Whether the session's conversation is still the one with this number.
  bool is_of(std::string_view session, std::uint64_t id) const;
  /// For what follows: whose turn of the engine it is.
  Conversation& conversation(std::string_view session);
  /// Gives rows back to the conversation they were taken from; false: that has ended, and the pages
  /// are free.
  bool give_back(std::string_view session, std::uint64_t id, Generation done);
  /// Of a turn whose prompt, with all that its session said before, has so many rows: where those
  /// came from.
  void count_prompt(const Conversation& conversation, std::size_t rows);
  /// As `FolderWatch::take_trouble`.
  std::string take_folder_trouble() { return folder_watch_.take_trouble(kept_, name_); }
  /// For a drawing: the number under which `prompt_of` has the conversation as it stands, in
  /// another process too, until the session's next turn. Errors: those of `KvPages::offer`.
  Result<std::uint64_t> offer(Conversation& conversation);
  void withdraw(Conversation& conversation);
  /// What a drawing reads, which has `length` tokens; `offered`: what `offer` gave. Errors: stale.
  Result<KvSequence> prompt_of(std::string_view session, std::size_t length, std::uint64_t offered);

 private:
  Result<std::unique_ptr<DrawingHost>> make_host(Model model, const PlannerOptions& options);
  PoolReport report() const;

  std::string name_, directory_;
  KeptPool kept_;
  std::unique_ptr<DrawingHost> host_;
  std::map<std::string, Conversation, std::less<>> conversations_;
  std::uint64_t next_id_ = 1;
  PromptCounts prompts_;
  FolderWatch folder_watch_;
  mutable PoolView view_;
  std::unique_ptr<Preloader> preloader_;  // the first to go: it uses the engine and the pool
};

/// The role's shared parameter of this kind. Errors: invalid_argument, naming the role.
Result<PagedKv*> paged_kv_of(const RoleMaking& making);

}  // namespace sluice
