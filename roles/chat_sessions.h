// The `paged_kv` of a checkpoint that chats: its engine, what each session has said, and the keys
// and values of that.
//
// Shared by roles that answer (`chat_model`, `language_model`), whose answers advance together.
// Thread: take a turn of the engine around every use. Source: omni-flow, section 4.1 (global params
// pool).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/storage/host_tier.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/chat_model.h"
#include "engine/tasks/preloader.h"
#include "engine/tasks/shared_engine.h"
#include "engine/tasks/text_device.h"
#include "roles/catalog.h"
#include "roles/chat_histories.h"
#include "roles/handed_prefix.h"
#include "roles/pool_view.h"

namespace sluice {

/// A chat so far. While an answer is being made its pages are with the generation.
struct ChatSession {
  /// What was begun to be said is not.
  void drop_pending();
  /// What is pending is said: behind all messages, or in place of what stands behind the first
  /// `step` turns. Errors: invalid_argument (there are fewer).
  Result<void> ask();
  /// The message is answered; what it stood in place of is gone.
  void answer(std::string text);
  /// As if the message had not been said. Nothing where none waits for its answer.
  void unsay();

  std::string name, role;              // whose it is
  ChatHistories* histories = nullptr;  // hears of what is void
  std::uint64_t id = 0;  // a session that ends and begins anew is another one
  std::optional<std::string> tenant;  // whose it is, as its first call said; none has come yet
  std::vector<ChatMessage> messages;
  ChatMessage pending{"user", "", {}};  // of the turn that is being said
  std::int64_t step = -1;               // of that turn; negative: it goes behind all
  bool asks = false;                    // the last message has no answer yet
  std::vector<ChatMessage> replaced;    // by that message, until it is answered
  std::uint64_t call = 0;               // whose turn that is
  std::uint64_t failed_call = 0;        // whose turn failed: the rest of it is refused
  std::uint64_t refused_call = 0;       // another tenant's: so is the rest of that
  KvSequence sequence;                  // of the first `sequence.tokens()` tokens below
  std::vector<std::int32_t> tokens;     // of all messages
  RowsOrigin origin;                    // what else decided its rows
  bool answering = false;
  Nanoseconds used = 0;      // when a role last asked for it
  std::uint64_t handed = 0;  // the number under which its answer waits to be gone on with; 0: none
  ReadAhead ahead;           // of the message that is pending
};

/// An answer whose prompt one role has read, for another to go on with.
struct HandedAnswer {
  /// The task that read it, done, stays in the engine for the pages that the answer will take.
  struct InEngine {
    TaskId task = 0;
    Generation generation;
  };
  /// Another machine may answer, so nothing is granted to it: its pages go where others need them.
  struct InPages {
    Generation generation;
  };
  /// Whichever process has its number goes on with it, in its own pages. The task that read it
  /// stays in the engine while those are somewhere.
  struct Given {
    std::uint64_t number = 0;
    TaskId task = 0;
    RowsOrigin origin;
  };
  /// They are gone: it is begun anew from its prompt.
  struct Dropped {
    RowsOrigin origin;
  };

  std::string session, role;  // whose conversation it belongs to
  std::uint64_t session_id = 0;
  std::vector<std::int32_t> prompt;
  GenerationOptions options;  // of an answer that is begun anew
  std::variant<Dropped, InPages, Given, InEngine> state = {};
  Nanoseconds until = 0;  // then its pages are given up

  const RowsOrigin& origin() const;
  /// Its pages are given up.
  void drop(KvPages& pages, ModelEngine& engine);
};

/// The checkpoint and its engine: one for all roles and replicas over the same pages.
struct ChatEngine {
  ChatEngine(ChatModel loaded, std::unique_ptr<TextEngine> decoder, kernels::WeightFormat weights,
             PlannerOptions options)
      : model(std::move(loaded)),
        format(weights),
        step_rows(options.budget),
        text(std::move(decoder)),
        shared(*text, options) {}

  ChatModel model;
  kernels::WeightFormat format;
  std::uint32_t step_rows;
  std::unique_ptr<TextEngine> text;  // of the model's decoder, on the CPU or a GPU
  SharedEngine shared;
  /// In a turn or between two: what other processes have said goes into their conversations.
  std::function<void()> hear_processes;
};

class ChatSessions final : public GlobalParam, public SessionKeeper {
 public:
  static constexpr Nanoseconds handed_patience = 60'000'000'000;

  /// `cuda`: as `add_builtin_plugins`. Errors: those of the pages and their configuration;
  /// unavailable (it is to be on a GPU, and there is none), invalid_argument (and on a GPU pages
  /// are as wide as the roles say).
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making,
                                                   const TextDevice* cuda = nullptr);

  /// Waits for the forward under way. The pages of an answer that is being made go with it.
  void end_session(std::string_view session) override;

  std::optional<HistoryMark> ask_history(const std::string& session, const std::string& role,
                                         std::uint32_t life) override;
  Result<void> settle_history(const std::string& session, const std::string& role,
                              std::uint32_t life, const KeptHistory& kept, bool is_told) override;
  void history_dropped(const std::string& session, const std::string& role) override;
  std::vector<ToldHistory> take_history(const std::string& session) override;
  ChatHistories& histories() { return histories_; }

  /// Loads the checkpoint for the first role that asks. Errors: invalid_argument (another directory
  /// than the pages are for, other options than the first role's); those of loading.
  Result<ChatEngine*> engine(const std::string& directory, kernels::WeightFormat format,
                             PlannerOptions options);
  /// For these: whose turn of the engine it is. Roles have conversations of their own.
  ChatSession& session(std::string_view name, std::string_view role);
  /// Null: it has ended.
  ChatSession* find(std::string_view name, std::string_view role);
  /// Before a piece of a call is taken: an answer of the call before it that nobody has gone on
  /// with was not asked for, and the session goes on where its home has said. False: the call is
  /// another tenant's, for which no answer is given up.
  bool come_to(ChatSession& session, const Activation& piece, ModelEngine& engine);
  /// `generation` goes on behind what the session has said where all pages that this takes are
  /// free. Else those of what was said go too: a task that waits holds none, for of
  /// two that wait for each other's none could ever run. They are found again where nobody needed
  /// them.
  /// `only_if_free`: without anybody's giving some up; false: they are not, and the session keeps
  /// its own.
  bool go_on_behind(ChatSession& session, Generation& generation, const Planner& planner,
                    bool only_if_free = false);
  /// The session's answer waits to be gone on with. Returns its number.
  std::uint64_t hand_over(ChatSession& session, HandedAnswer answer);
  /// The caller goes on with its task, or removes it. None: it is not this session's, it was taken,
  /// or the session has moved on.
  std::optional<HandedAnswer> take_handed(std::uint64_t number, std::string_view session);
  /// An answer that nobody has gone on with was not asked for.
  void drop_handed(ChatSession& session, ModelEngine& engine);
  /// Those that nobody has gone on with for `handed_patience` hold no pages any more.
  void drop_late(ModelEngine& engine);
  /// What other machines, or processes, have said with answers that were handed to them goes into
  /// their conversations. Before sessions are looked at.
  void hear(ModelEngine& engine);
  /// The same of the answer under this number alone, where a process of this machine was given it.
  void hear_of(std::uint64_t number, ModelEngine& engine);
  /// The pages are used by other processes too: what was said is theirs to give up, so a session
  /// that does not answer has none, and finds again what is still there.
  bool is_among_processes() const { return kept_.pool != nullptr && kept_.pool->is_attached(); }
  /// To whichever process has the number: its pages, with those for the rest of the answer, which
  /// it was granted. Requires: that, and the number of what was handed over as `Given`.
  Result<void> give(std::uint64_t number, Generation generation, ModelEngine& engine);
  std::vector<std::pair<std::string, std::uint64_t>> counts() const override;
  std::optional<PoolReport> pool_report(std::chrono::milliseconds patience) const override;
  /// Of a prompt that was computed, in part before it was asked, where its pages came from.
  void count_prompt(std::size_t tokens, const Generation& done, const ReadAhead& ahead);
  /// Why the folder of pages is not used for a while, once each time that it failed; empty: it
  /// works, there is none, or this was told.
  std::string take_folder_trouble();
  /// Requires: they are on the CPU, or an engine was loaded, with which a GPU's come.
  KvPages& pages();
  EngineDevice device() const { return cuda_ != nullptr ? EngineDevice::cuda : EngineDevice::cpu; }
  /// Null: the pages are in memory alone.
  const KvTier* tier() const { return kept_.tier.get(); }
  /// Null: there are no other machines.
  KvPeers* peers() { return kept_.peers.get(); }
  std::function<Nanoseconds()> clock = engine_clock;

 private:
  Result<Model> open_model(const std::string& directory, kernels::WeightFormat format) const;
  Result<std::unique_ptr<TextEngine>> text_of(const Model& model);
  Result<std::unique_ptr<TextEngine>> text_on_gpu(const Model& model);
  void go_on_as_settled(ChatSession& session);
  bool is_free(const Planner& planner, std::size_t more);
  bool is_within_quota(const Planner& planner, const std::string& tenant, std::size_t more);
  bool make_room(const Planner& planner, std::size_t more);
  bool make_tenant_room(const Planner& planner, const std::string& tenant, std::size_t more);
  void make_waiting_tenants_room(const Planner& planner);
  void take_said(SaidAnswer said);
  void hear_processes(ModelEngine& engine);
  void drop_late(HandedAnswer& handed, ModelEngine& engine);
  std::uint64_t next_number();
  PoolReport report() const;

  /// Where pages may be that those of the engine are not. Null: nowhere.
  PageSource* source() const {
    return host_tier_ != nullptr ? static_cast<PageSource*>(host_tier_.get()) : kept_.source();
  }

  std::string directory_;
  GlobalParamSpec spec_;
  const TextDevice* cuda_ = nullptr;  // null: on the CPU
  PeerPort* peers_ = nullptr;         // of pages of a GPU, which come with the engine
  std::string shared_name_;           // the same
  KeptPool kept_;                     // in the host's memory
  std::unique_ptr<ChatEngine> engine_;
  std::unique_ptr<HostTier> host_tier_;  // between the GPU's pages and those; null: there are none
  std::map<std::pair<std::string, std::string>, ChatSession> sessions_;  // by name and role
  std::map<std::uint64_t, HandedAnswer> handed_;
  std::uint64_t next_id_ = 1;
  PromptCounts prompts_;
  FolderWatch folder_watch_;
  ChatHistories histories_;
  mutable PoolView view_;
  std::unique_ptr<Preloader> preloader_;  // the first to go: it uses the engine and the pool
};

/// Null: the role lists none, or one of another kind of checkpoint.
ChatSessions* chat_sessions_of(const RoleMaking& making);

}  // namespace sluice
