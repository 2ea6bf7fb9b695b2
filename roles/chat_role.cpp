#include "roles/chat_role.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <new>

#include "base/failpoint.h"
#include "roles/chat_ahead.h"
#include "roles/chat_options.h"
#include "roles/chat_pictures.h"
#include "roles/chat_sessions.h"
#include "roles/chat_turn.h"
#include "roles/emissions.h"
#include "roles/engine_options.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

using namespace chat;

Error thrown(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr)
    return {ErrorCode::exhausted, "out of memory"};
  return {ErrorCode::unavailable, e.what()};
}

class ChatRole final : public SteppedRole {
 public:
  ChatRole(std::string name, ChatEngine& engine, ChatSessions& sessions, bool share_prefixes,
           std::size_t tokens_max)
      : name_(std::move(name)),
        engine_(engine),
        sessions_(sessions),
        ahead_(engine, sessions, name_, share_prefixes),
        share_prefixes_(share_prefixes),
        tokens_max_(tokens_max) {}
  ~ChatRole() override {
    SharedEngine::Turn mine(engine_.shared);
    mine.was_used();
    for (const Turn& turn : turns_) mine.engine().remove(turn.id);
    for (Piece& piece : waiting_) stop_looking(piece, mine);
    ahead_.stop_all(mine);
    turns_.clear();
  }
  ChatRole(const ChatRole&) = delete;
  ChatRole& operator=(const ChatRole&) = delete;

  void admit(Activation& activation) override { waiting_.push_back({&activation, false, {}, {}}); }
  bool busy() const override {
    return !waiting_.empty() || !turns_.empty() || !telling_.empty() || !ahead_.is_idle();
  }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  void take_all(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);
  bool waits(std::size_t at, SharedEngine::Turn& mine);
  void take(Piece& piece, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);
  Result<void> begin(Activation& activation, ChatSession& session, const Payload& text,
                     SharedEngine::Turn& mine);
  Result<void> begin_or_leave(Activation& activation, ChatSession& session, const Payload& text,
                              SharedEngine::Turn& mine);
  void add(Turn turn, SharedEngine::Turn& mine);
  Result<void> go_on(Activation& activation, SharedEngine::Turn& mine);
  Result<void> go_on_with(Activation& activation, HandedAnswer& handed, SharedEngine::Turn& mine);
  void drop_handed(const Activation& activation, SharedEngine::Turn& mine);
  void take_back(const HandedAnswer& handed);
  Result<void> hand_over(Turn& turn, Generation generation, SharedEngine::Turn& mine);
  Result<void> answer_prompt(Turn turn, GenerationOptions options, SharedEngine::Turn& mine);
  Result<void> go_on_from_elsewhere(Activation& activation, HandedPrefix prefix,
                                    SharedEngine::Turn& mine);
  Result<void> go_on_given(Activation& activation, HandedPrefix prefix, SharedEngine::Turn& mine);
  Result<void> give(const Turn& turn, HandedAnswer handed, HandedPrefix prefix,
                    Generation generation, SharedEngine::Turn& mine);
  void tell(Turn& turn, const Generation& done, Result<void> outcome,
            std::vector<StepOutcome>& ended);
  void finish_telling(std::vector<StepOutcome>& ended);
  void yield_progress(Turn& turn);
  void finish(Turn& turn, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);
  void advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);

  const std::string name_;
  ChatEngine& engine_;
  ChatSessions& sessions_;
  ReadsAhead ahead_;
  const bool share_prefixes_;
  const std::size_t tokens_max_;  // of an answer whose message does not say
  std::deque<Piece> waiting_;
  std::vector<Turn> turns_;
  std::vector<Telling> telling_;
  Emissions emissions_;
};

/// A piece of a message, or the end of one.
void ChatRole::take(Piece& piece, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  Activation& activation = *piece.activation;
  ChatSession& session = sessions_.session(activation.session(), name_);
  const std::uint64_t call = activation.call();
  const bool has_failed = session.failed_call == call || session.refused_call == call;
  Result<void> outcome = has_failed
                             ? Error{ErrorCode::cancelled, "an earlier piece of this turn failed"}
                             : go_on_as(activation, session.tenant);
  if (has_failed || (!outcome.ok() && session.call != call)) {  // nothing of the session changes
    if (!has_failed) session.refused_call = call;
    stop_looking(piece, mine);
    return ended.push_back({&activation, std::move(outcome)});
  }
  if (outcome.ok()) outcome = piece.outcome;
  ahead_.stop(session, mine, ended);
  // What another call began to say and did not end was not said.
  const bool is_first = std::exchange(session.call, call) != call;
  if (is_first) session.drop_pending();
  for (Look& look : piece.looks) session.pending.pictures.push_back(std::move(look.picture));
  for (const PayloadRef& text : activation.inputs("text")) {
    session.pending.text += text->text;
    session.step = text->attribute("step").value_or(session.step);
    if (!outcome.ok() || text->attribute("generate").value_or(1) == 0) continue;
    outcome = begin_or_leave(activation, session, *text, mine);
    if (outcome.ok()) return;  // ends when the answer does
  }
  if (outcome.ok() && (is_first || !piece.looks.empty()))
    return ahead_.piece_came(session, activation);
  if (!outcome.ok()) {
    session.drop_pending();
    session.failed_call = activation.call();
  }
  ended.push_back({&activation, std::move(outcome)});
}

Result<void> ChatRole::begin(Activation& activation, ChatSession& session, const Payload& text,
                             SharedEngine::Turn& mine) {
  const ChatModel& model = engine_.model;
  const ReadAhead ahead = session.ahead;
  if (Result<void> asked = session.ask(); !asked.ok()) return asked;
  Result<std::vector<std::int32_t>> prompt = model.tokens(session.messages);
  GenerationOptions options = options_of(text, tokens_max_);
  options.share_prefix = share_prefixes_;
  options.tenant = session.tenant.value_or("");
  options.first_only = activation.interface() == "prefill";
  const std::size_t tokens_asked = options.tokens_max;
  Result<Generation> generation =
      prompt.ok() ? model.begin_with(*prompt, session.messages, std::move(options))
                  : Result<Generation>(prompt.error());
  if (!generation.ok()) {
    session.unsay();
    return generation.error();
  }
  session.answering = true;
  sessions_.go_on_behind(session, *generation, mine.engine().planner());
  Turn turn{&activation, session.id, std::move(prompt).value(),          nullptr, 0,
            0,           name_,      activation.interface() == "prefill"};
  turn.tokens_asked = tokens_asked;
  turn.ahead = ahead;
  turn.task = std::make_unique<GenerationTask>(std::move(generation).value(), &model.tokenizer());
  add(std::move(turn), mine);
  return {};
}

/// Where memory runs out the session is as if the message had not been said, and waits for nobody.
Result<void> ChatRole::begin_or_leave(Activation& activation, ChatSession& session,
                                      const Payload& text, SharedEngine::Turn& mine) {
  try {
    return begin(activation, session, text, mine);
  } catch (const std::exception& e) {
    session.unsay();
    session.answering = false;
    return thrown(e);
  }
}

/// To those under way and to the engine, or to neither: that borrows the task.
void ChatRole::add(Turn turn, SharedEngine::Turn& mine) {
  turns_.reserve(turns_.size() + 1);
  turn.id = mine.add(*turn.task);
  turns_.push_back(std::move(turn));
}

/// With an answer whose prompt another role has read. Where memory runs out its session is as if
/// the message had not been said.
Result<void> ChatRole::go_on(Activation& activation, SharedEngine::Turn& mine) {
  Result<HandedPrefix> prefix =
      read_prefix(*activation.input("prefix"), engine_.model.model().text().shape().vocabulary);
  if (!prefix.ok()) return prefix.error();
  if (sessions_.is_among_processes()) {
    Result<void> begun = go_on_given(activation, std::move(prefix).value(), mine);
    if (!begun.ok()) drop_handed(activation, mine);
    return begun;
  }
  if (prefix->from.has_value() &&
      (sessions_.peers() == nullptr || *prefix->from != sessions_.peers()->self()))
    return go_on_from_elsewhere(activation, std::move(prefix).value(), mine);
  turns_.reserve(turns_.size() + 1);
  std::optional<HandedAnswer> handed = sessions_.take_handed(prefix->number, activation.session());
  if (!handed.has_value())
    return Error{ErrorCode::stale,
                 "no answer of this session waits under the prefix: it was begun already, the "
                 "session's next call took it away, or the prefix was read into another paged_kv"};
  try {
    return go_on_with(activation, *handed, mine);
  } catch (const std::exception& e) {
    handed->drop(sessions_.pages(), mine.engine());
    take_back(*handed);
    return thrown(e);
  }
}

Result<void> ChatRole::go_on_with(Activation& activation, HandedAnswer& handed,
                                  SharedEngine::Turn& mine) {
  Turn turn{.activation = &activation,
            .session = handed.session_id,
            .prompt = std::move(handed.prompt),
            .role = handed.role};
  if (auto* dropped = std::get_if<HandedAnswer::Dropped>(&handed.state)) {
    Result<void> begun =
        dropped->origin.pictures.empty()
            ? answer_prompt(std::move(turn), std::move(handed.options), mine)
            : Error{ErrorCode::stale,
                    "its prompt shows a picture and was read too long ago: ask again"};
    if (!begun.ok()) take_back(handed);
    return begun;
  }
  turn.reads = false;
  auto* const held = std::get_if<HandedAnswer::InEngine>(&handed.state);
  Generation generation =
      std::move(held != nullptr ? held->generation
                                : std::get<HandedAnswer::InPages>(handed.state).generation);
  turn.task = std::make_unique<GenerationTask>(std::move(generation), &engine_.model.tokenizer());
  if (held == nullptr && !turn.task->done())
    turn.id = mine.add(*turn.task);
  else if (held != nullptr && !turn.task->done())
    turn.id = mine.go_on(held->task, *turn.task);
  else if (held != nullptr)
    mine.engine().remove(held->task);
  turns_.push_back(std::move(turn));
  return {};
}

/// From its beginning, whose pages may be here or on another machine.
Result<void> ChatRole::answer_prompt(Turn turn, GenerationOptions options,
                                     SharedEngine::Turn& mine) {
  const ChatModel& model = engine_.model;
  Result<Generation> generation = model.begin_with(turn.prompt, {}, std::move(options));
  if (!generation.ok()) return generation.error();
  turn.task = std::make_unique<GenerationTask>(std::move(generation).value(), &model.tokenizer());
  add(std::move(turn), mine);
  return {};
}

Result<void> ChatRole::go_on_from_elsewhere(Activation& activation, HandedPrefix prefix,
                                            SharedEngine::Turn& mine) {
  if (sessions_.peers() == nullptr)
    return Error{ErrorCode::unavailable,
                 "the prompt was read on another machine, and this one "
                 "shares no pages with others"};
  if (prefix.has_pictures)
    return Error{ErrorCode::unavailable,
                 "a prompt with pictures was read on another machine: only there it can be "
                 "answered; put both roles on one machine"};
  failpoint("prefix_came");
  GenerationOptions options = prefix.options;
  Turn turn{.activation = &activation, .prompt = prefix.prompt, .role = name_};
  turn.from = std::move(prefix);
  sessions_.peers()->ask_first(turn.from->from);
  Result<void> begun = answer_prompt(std::move(turn), std::move(options), mine);
  sessions_.peers()->ask_first({});
  return begun;
}

/// In the pages themselves, which any process of this machine may have been given; where they were
/// given up, who read the prompt has died, or had other weights (the checkpoint's files have
/// changed since), from its beginning.
Result<void> ChatRole::go_on_given(Activation& activation, HandedPrefix prefix,
                                   SharedEngine::Turn& mine) {
  attached::Text begun;
  Result<std::optional<KvSequence>> taken = sessions_.pages().accept(prefix.number, &begun);
  if (!taken.ok()) return taken.error();
  std::optional<Generation> generation;
  if (taken->has_value()) {
    generation =
        decode_begun(begun, prefix.prompt, engine_.model.model().text().shape().vocabulary);
    if (!generation.has_value() || (*taken)->tokens() != prefix.prompt.size())
      return Error{ErrorCode::corrupt, "another process gave an answer that cannot be"};
    generation->sequence = std::move(**taken);
    if (generation->origin.model != engine_.model.identity()) generation.reset();
  }
  Turn turn{.activation = &activation, .prompt = prefix.prompt, .role = name_};
  GenerationOptions options = prefix.options;
  turn.from = std::move(prefix);
  if (!generation.has_value() && turn.from->has_pictures)
    return Error{ErrorCode::stale,
                 "its prompt shows a picture, and was read too long ago or by a process that has "
                 "died since: ask again"};
  if (!generation.has_value()) return answer_prompt(std::move(turn), std::move(options), mine);
  turn.reads = false;
  turn.task = std::make_unique<GenerationTask>(*std::move(generation), &engine_.model.tokenizer());
  if (turn.task->done())
    turns_.push_back(std::move(turn));
  else
    add(std::move(turn), mine);
  return {};
}

/// The conversation's machine, before the activation can end: the session's next call finds there
/// what was said.
void ChatRole::tell(Turn& turn, const Generation& done, Result<void> outcome,
                    std::vector<StepOutcome>& ended) {
  const std::string session(turn.activation->session());
  SaidAnswer said{turn.from->number, session, outcome.ok(), done.text, done.tokens};
  std::vector<std::byte> bytes = encode_said(said);
  if (outcome.ok() && bytes.size() > pages::note_bytes_most)
    outcome = Error{ErrorCode::exhausted,
                    "the answer is too long for a conversation that is on another machine or in "
                    "another process"};
  if (bytes.size() > pages::note_bytes_most) {
    said = {said.number, said.session, false, {}, {}};
    bytes = encode_said(said);
  }
  if (sessions_.is_among_processes()) {
    const Result<bool> heard = sessions_.pages().say(said.number, std::move(bytes));
    if (outcome.ok() && !(heard.ok() && *heard))
      turn.activation->warn(
          "the process that has the conversation did not hear what was said: the next turn does "
          "not know of this one");
    ended.push_back({turn.activation, std::move(outcome)});
    turn.activation = nullptr;
    return;
  }
  if (outcome.ok())
    sessions_.histories().said_for(session, turn.from->history, {"assistant", done.text, {}});
  const std::uint64_t number = sessions_.peers()->tell(*turn.from->from, std::move(bytes));
  if (outcome.ok())
    telling_.push_back(
        {turn.activation, number, *turn.from->from, engine_clock() + Telling::patience});
  else
    ended.push_back({turn.activation, std::move(outcome)});
  turn.activation = nullptr;
}

void ChatRole::finish_telling(std::vector<StepOutcome>& ended) {
  std::erase_if(telling_, [&](const Telling& one) {
    if (!one.is_over(*sessions_.peers(), engine_clock())) return false;
    ended.push_back({one.activation, {}});
    return true;
  });
}

/// Nobody goes on with it, so its pages are not kept for anybody.
void ChatRole::drop_handed(const Activation& activation, SharedEngine::Turn& mine) {
  const Result<HandedPrefix> prefix =
      read_prefix(*activation.input("prefix"), engine_.model.model().text().shape().vocabulary);
  if (!prefix.ok()) return;
  const SaidAnswer nothing{prefix->number, std::string(activation.session()), false, {}, {}};
  if (sessions_.is_among_processes()) {
    (void)sessions_.pages().say(prefix->number, encode_said(nothing));
    return;
  }
  if (prefix->from.has_value() && sessions_.peers() != nullptr &&
      *prefix->from != sessions_.peers()->self()) {
    (void)sessions_.peers()->tell(*prefix->from, encode_said(nothing));
    return;
  }
  std::optional<HandedAnswer> handed = sessions_.take_handed(prefix->number, activation.session());
  if (!handed.has_value()) return;
  handed->drop(sessions_.pages(), mine.engine());
  take_back(*handed);
}

/// As if the session had not asked.
void ChatRole::take_back(const HandedAnswer& handed) {
  ChatSession* const session = sessions_.find(handed.session, handed.role);
  if (session == nullptr || session->id != handed.session_id) return;
  session->answering = false;
  session->unsay();
}

/// The task stays in the engine: its answer's pages are nobody else's until it is gone on with.
Result<void> ChatRole::hand_over(Turn& turn, Generation generation, SharedEngine::Turn& mine) {
  ChatSession* session = sessions_.find(turn.activation->session(), turn.role);
  if (session == nullptr || session->id != turn.session) {
    mine.engine().remove(turn.id);
    return Error{ErrorCode::cancelled, "the session has ended"};
  }
  generation.options.first_only = false;
  HandedAnswer handed{.session = std::string(turn.activation->session()),
                      .role = turn.role,
                      .session_id = turn.session,
                      .prompt = turn.prompt,
                      .options = generation.options};
  handed.options.tokens_max = turn.tokens_asked;  // not what these pages have room for
  const std::vector<ChatMessage>& messages = session->messages;
  sessions_.histories().said(handed.session, turn.role, messages, 1, messages.size() - 1);
  HandedPrefix prefix;
  prefix.history = sessions_.histories().place(handed.session, turn.role);
  prefix.length = generation.sequence.tokens();
  if (sessions_.peers() != nullptr) {
    prefix.from = sessions_.peers()->self();
    prefix.has_pictures = !generation.origin.pictures.empty();
    prefix.prompt = turn.prompt;
    prefix.options = handed.options;
    // It may be answered elsewhere, where pages are taken; here they may be given up for others.
    mine.engine().remove(turn.id);
    handed.state = HandedAnswer::InPages{std::move(generation)};
  } else if (sessions_.is_among_processes()) {
    prefix.has_pictures = !generation.origin.pictures.empty();
    prefix.prompt = turn.prompt;
    prefix.options = handed.options;
    handed.state = HandedAnswer::Given{0, turn.id, generation.origin};
    return give(turn, std::move(handed), std::move(prefix), std::move(generation), mine);
  } else {
    handed.state = HandedAnswer::InEngine{turn.id, std::move(generation)};
  }
  prefix.number = sessions_.hand_over(*session, std::move(handed));
  emissions_.add(*turn.activation, "prefix", prefix_frame(prefix));
  return {};
}

Result<void> ChatRole::give(const Turn& turn, HandedAnswer handed, HandedPrefix prefix,
                            Generation generation, SharedEngine::Turn& mine) {
  ChatSession& session = *sessions_.find(handed.session, handed.role);
  prefix.number = sessions_.hand_over(session, std::move(handed));
  if (Result<void> given = sessions_.give(prefix.number, std::move(generation), mine.engine());
      !given.ok()) {
    sessions_.drop_handed(session, mine.engine());
    return given;
  }
  emissions_.add(*turn.activation, "prefix", prefix_frame(prefix));
  return {};
}

void ChatRole::yield_progress(Turn& turn) {
  if (turn.hands_over) return;
  const Generation& generation = turn.task->generation();
  // The last token may have added no text, and still it is told that the answer was cut off there.
  const bool is_cut_off = generation.finish == Generation::Finish::length;
  if (generation.text.size() <= turn.said && !is_cut_off) return;
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = generation.text.substr(turn.said);
  if (is_cut_off)
    payload->attributes.emplace_back("cut_off", static_cast<std::int64_t>(turn.task->cut_off()));
  turn.said = generation.text.size();
  emissions_.add(*turn.activation, "token", PayloadRef(payload));
}

void ChatRole::finish(Turn& turn, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  if (std::string trouble = sessions_.take_folder_trouble(); !trouble.empty())
    turn.activation->warn(std::move(trouble));
  const bool ended_by_itself = turn.task->done();
  Generation done = turn.task->release();
  Result<void> outcome;
  if (done.error.has_value()) outcome = *done.error;
  if (outcome.ok() && ended_by_itself && turn.reads)
    sessions_.count_prompt(turn.prompt.size(), done, turn.ahead);
  // Of a call that is cancelled nobody goes on with what was read.
  if (turn.activation->cancelled() && (!ended_by_itself || turn.hands_over))
    outcome = Error{ErrorCode::cancelled, "the call was cancelled"};
  if (turn.hands_over && outcome.ok()) {
    ended.push_back({turn.activation, hand_over(turn, std::move(done), mine)});
    turn.activation = nullptr;
    return;
  }
  mine.engine().remove(turn.id);
  if (turn.from.has_value()) return tell(turn, done, std::move(outcome), ended);
  ChatSession* session = sessions_.find(turn.activation->session(), turn.role);
  if (session != nullptr && session->id == turn.session) {  // else it ended meanwhile
    session->answering = false;
    if (!sessions_.is_among_processes()) session->sequence = std::move(done.sequence);
    session->origin = std::move(done.origin);
    session->tokens = std::move(turn.prompt);
    session->tokens.insert(session->tokens.end(), done.tokens.begin(), done.tokens.end());
    if (outcome.ok()) {
      session->answer(done.text);
      // Of a call that may have ended for its caller before it is told with the next turn.
      if (!turn.activation->cancelled())
        sessions_.histories().said(std::string(turn.activation->session()), turn.role,
                                   session->messages, 2, session->messages.size());
    } else {
      session->unsay();
      session->failed_call = turn.activation->call();
    }
  }
  ended.push_back({turn.activation, std::move(outcome)});
  turn.activation = nullptr;
}

/// A session's pieces in order; behind an answer that is being made they wait. Each is out of those
/// that wait before anything is done with it: should that throw, nobody looks at it again.
void ChatRole::take_all(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  for (std::size_t at = 0; at < waiting_.size();) {
    Activation& activation = *waiting_[at].activation;
    const bool is_cancelled = activation.cancelled();
    if (!is_cancelled && waits(at, mine)) {
      ++at;
      continue;
    }
    Piece piece = std::move(waiting_[at]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    if (is_cancelled) {
      stop_looking(piece, mine);
      if (activation.interface() == "decode") drop_handed(activation, mine);
      ended.push_back({&activation, Error{ErrorCode::cancelled, "the call was cancelled"}});
    } else if (activation.interface() == "decode") {
      if (Result<void> on = go_on(activation, mine); !on.ok())
        ended.push_back({&activation, std::move(on)});
    } else {
      take(piece, mine, ended);
    }
  }
}

/// Whether it is not its turn yet: those before it wait too.
bool ChatRole::waits(std::size_t at, SharedEngine::Turn& mine) {
  const Piece& piece = waiting_[at];
  if (piece.activation->interface() == "decode") return false;
  ChatSession& session = sessions_.session(piece.activation->session(), name_);
  if (!sessions_.come_to(session, *piece.activation, mine.engine())) return false;  // it is refused
  const auto same = [&](const Piece& other) {
    return other.activation->session() == piece.activation->session();
  };
  return !piece.is_ready() || session.answering ||
         std::any_of(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(at), same);
}

/// What forwards have brought, whoever ran them.
void ChatRole::advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  for (Turn& turn : turns_) {
    if (turn.activation == nullptr) continue;  // ended in a step that threw behind it
    yield_progress(turn);
    if (turn.task->done() || turn.activation->cancelled()) finish(turn, mine, ended);
  }
  std::erase_if(turns_, [](const Turn& turn) { return turn.activation == nullptr; });
}

void ChatRole::step(std::vector<StepOutcome>& ended) {
  look_at_one(waiting_, engine_.model);
  {
    SharedEngine::Turn mine(engine_.shared);
    sessions_.hear(mine.engine());
    sessions_.drop_late(mine.engine());
    advance(mine, ended);
    take_encoded(waiting_, engine_.model, mine);
    encode_looks(waiting_, engine_.model, mine);
    take_all(mine, ended);
    ahead_.begin(waiting_, mine, ended);
    const bool ran = mine.forward();
    take_encoded(waiting_, engine_.model, mine);
    advance(mine, ended);
    ahead_.advance(mine, ended);
    finish_telling(ended);
    if (ran || !ended.empty()) mine.was_used();
  }
  emissions_.send();
}

constexpr std::string_view options[] = {"max_tokens", "precision", "share_prefixes", "step_tokens"};

}  // namespace

Result<RoleInstance> make_chat_role(const RoleMaking& making,
                                    const std::vector<OptionDeclaration>& known) {
  ChatSessions* const sessions = chat_sessions_of(making);
  const std::string role = "role '" + making.role->name.text + "'";
  if (sessions == nullptr)
    return invalid_argument(role + " needs a paged_kv of its model among its global_params");
  const Result<EngineOptions> said =
      read_engine_options(*making.role, making.model_directory, known);
  if (!said.ok()) return said.error();
  const Result<ChatEngine*> engine =
      sessions->engine(making.model_directory, said->format_on(sessions->device()), said->planner);
  if (!engine.ok()) return engine.error();
  return RoleInstance(std::unique_ptr<SteppedRole>(std::make_unique<ChatRole>(
      making.role->name.text, **engine, *sessions, said->share_prefixes, said->tokens_max)));
}

Plugin chat_model_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "chat_model",
      .meaning = "a checkpoint that answers texts and pictures, token by token",
      .interfaces = {{.name = "answer",
                      .inputs = {{"text", ValueType::text, "a piece of the message", false},
                                 {"image", ValueType::image, "a picture in it", false}},
                      .outputs = {{"token", ValueType::text, "a piece of the answer", false}},
                      .frames = {{"token"}},
                      .yields_max = 0}},
      .session_state = true,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {"paged_kv"},
      .options = engine_options(options)};
  plugin.make = [](const RoleMaking& making) {
    return make_chat_role(making, engine_options(options));
  };
  return plugin;
}

}  // namespace sluice
