#include "roles/chat_ahead.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace sluice::chat {

namespace {

/// What a session has said with the message that it is saying, for as long as this lives.
class WithPending {
 public:
  explicit WithPending(ChatSession& session) : session_(session) {
    session_.messages.push_back(std::move(session_.pending));
    text_ = std::exchange(session_.messages.back().text, {});
  }
  ~WithPending() {
    session_.messages.back().text = std::move(text_);
    session_.pending = std::move(session_.messages.back());
    session_.messages.pop_back();
  }
  WithPending(const WithPending&) = delete;
  WithPending& operator=(const WithPending&) = delete;

  /// Its tokens as far as they are the same whatever the message goes on with. Pictures stand
  /// before the text of their message, so none of the text is among them.
  std::vector<std::int32_t> beginning(const ChatModel& model) {
    std::vector<std::vector<std::int32_t>> prompts;
    for (const char* text : {"a", "\n"}) {
      session_.messages.back().text = text;
      Result<std::vector<std::int32_t>> prompt = model.tokens(session_.messages);
      if (!prompt.ok()) return {};  // the answer says why
      prompts.push_back(std::move(prompt).value());
    }
    const auto differ = std::ranges::mismatch(prompts[0], prompts[1]).in1;
    prompts[0].erase(differ, prompts[0].end());
    return std::move(prompts[0]);
  }

 private:
  ChatSession& session_;
  std::string text_;
};

}  // namespace

void ReadsAhead::piece_came(const ChatSession& session, Activation& piece) {
  reads_.push_back({&piece, session.name, session.id});
}

ChatSession* ReadsAhead::session_of(const Read& read) {
  ChatSession* const found = sessions_.find(read.session, role_);
  return found != nullptr && found->id == read.id ? found : nullptr;
}

void ReadsAhead::begin(const std::deque<Piece>& waiting, SharedEngine::Turn& mine,
                       std::vector<StepOutcome>& ended) {
  for (Read& read : reads_) {
    if (read.task != nullptr) continue;
    const bool is_encoding = std::ranges::any_of(waiting, [&](const Piece& piece) {
      return piece.activation->session() == read.session && !piece.is_ready();
    });
    try {
      if (!is_encoding && !read.piece->cancelled()) begin(read, mine);
    } catch (const std::exception&) {
      // Where memory runs out the answer computes all.
    }
    if (read.task == nullptr) ended.push_back({std::exchange(read.piece, nullptr), {}});
  }
  std::erase_if(reads_, [](const Read& read) { return read.piece == nullptr; });
}

/// Whether so much of the prompt is in pages already that the rest is better left to the answer.
bool ReadsAhead::is_there(const ChatSession& session, const RowsOrigin& origin,
                          const std::vector<std::int32_t>& prompt, bool of_others) {
  const std::size_t least = std::max(rows_least, prompt.size() / part_least);
  const std::size_t said = std::min(session.tokens.size(), session.sequence.tokens());
  std::size_t found =
      rows_in_common(session.origin, std::span(session.tokens).first(said), origin, prompt);
  const KvPages& pages = sessions_.pages();
  if (found + least <= prompt.size() && of_others) {
    // Where the table is here nobody has used what is only looked for.
    const std::size_t there =
        pages.is_attached()
            ? pages.open(origin, prompt).tokens()
            : pages.table().match(pages.keys_of(origin, prompt)) * pages.shape().page_tokens;
    found = std::max(found, there);
  }
  return found + least > prompt.size();
}

void ReadsAhead::begin(Read& read, SharedEngine::Turn& mine) {
  ChatSession* const session = session_of(read);
  const ChatModel& model = engine_.model;
  // Where the message goes behind an earlier turn its last piece cuts off what follows.
  if (session == nullptr || session->answering || session->asks || session->step >= 0 ||
      model.model().architecture().image_token == patches_token)
    return;
  GenerationOptions options;
  options.tokens_max = 0;
  options.tenant = session->tenant.value_or("");
  // Where a picture does not say whose it is, others find it when a text has.
  options.share_prefix = share_prefixes_ && session->tenant.has_value();
  // Of other processes' pages a session keeps none: what nobody finds would be lost.
  if (sessions_.is_among_processes() && !options.share_prefix) return;
  std::optional<Generation> made;
  {
    WithPending said(*session);
    read.prompt = said.beginning(model);
    if (is_there(*session, model.origin_of(session->messages, options.tenant), read.prompt,
                 options.share_prefix))
      return;
    Result<Generation> begun = model.begin_with(read.prompt, session->messages, std::move(options));
    // Rows that see each other are those of the whole message.
    if (!begun.ok() || begun->mask != Mask::causal) return;
    made = std::move(begun).value();
  }
  if (!sessions_.go_on_behind(*session, *made, mine.engine().planner(), true)) return;
  read.had = made->sequence.tokens();
  auto task = std::make_unique<GenerationTask>(*std::move(made), &model.tokenizer());
  read.number = mine.add(*task);
  read.task = std::move(task);
}

/// A failure is none of the session: its answer finds the same, and says so.
void ReadsAhead::end(Read& read, SharedEngine::Turn& mine) {
  if (read.task == nullptr) return;
  Generation done = read.task->release();
  mine.engine().remove(read.number);
  read.task = nullptr;
  ChatSession* const session = session_of(read);
  if (session == nullptr || session->answering) return;
  const std::size_t kept = std::max(read.had, done.tokens_kept);
  session->ahead.add(kept, std::max(done.sequence.tokens(), kept) - kept);
  session->ahead.brought += done.tokens_read_back;
  session->ahead.of_folder += done.tokens_of_folder;
  session->origin = std::move(done.origin);
  session->tokens = std::move(read.prompt);
  if (!sessions_.is_among_processes()) session->sequence = std::move(done.sequence);
}

void ReadsAhead::advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  for (Read& read : reads_) {
    const bool is_cancelled = read.piece->cancelled();
    const auto waiting = mine.engine().planner().who_waits();
    const bool waits = std::ranges::find(waiting, read.number) != waiting.end();
    const bool runs = read.task != nullptr && !read.task->done() && !waits;
    if (runs && !is_cancelled && session_of(read) != nullptr) continue;
    end(read, mine);
    ended.push_back({std::exchange(read.piece, nullptr),
                     is_cancelled
                         ? Result<void>(Error{ErrorCode::cancelled, "the call was cancelled"})
                         : Result<void>()});
  }
  std::erase_if(reads_, [](const Read& read) { return read.piece == nullptr; });
}

void ReadsAhead::stop(const ChatSession& session, SharedEngine::Turn& mine,
                      std::vector<StepOutcome>& ended) {
  const auto it =
      std::ranges::find_if(reads_, [&](const Read& read) { return read.id == session.id; });
  if (it == reads_.end()) return;
  end(*it, mine);
  ended.push_back({it->piece, {}});
  reads_.erase(it);
}

void ReadsAhead::stop_all(SharedEngine::Turn& mine) {
  for (const Read& read : reads_)
    if (read.task != nullptr) mine.engine().remove(read.number);
  reads_.clear();
}

}  // namespace sluice::chat
