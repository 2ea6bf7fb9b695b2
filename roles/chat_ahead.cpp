#include "roles/chat_ahead.h"

#include <algorithm>
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

void ReadsAhead::piece_came(const ChatSession& session) {
  const auto same = [&](const Read& read) { return read.id == session.id; };
  if (const auto it = std::ranges::find_if(reads_, same); it != reads_.end())
    it->has_more = true;
  else
    reads_.push_back({session.name, session.id});
}

ChatSession* ReadsAhead::session_of(const Read& read) {
  ChatSession* const found = sessions_.find(read.session, role_);
  return found != nullptr && found->id == read.id ? found : nullptr;
}

void ReadsAhead::begin(const std::deque<Piece>& waiting, SharedEngine::Turn& mine) {
  for (Read& read : reads_) {
    if (read.task != nullptr || !std::exchange(read.has_more, false)) continue;
    const bool is_encoding = std::ranges::any_of(waiting, [&](const Piece& piece) {
      return piece.activation->session() == read.session && !piece.is_ready();
    });
    if (!is_encoding && mine.engine().planner().waiting() == 0) begin(read, mine);
  }
  std::erase_if(reads_, [](const Read& read) { return read.task == nullptr; });
}

void ReadsAhead::begin(Read& read, SharedEngine::Turn& mine) {
  ChatSession* const session = session_of(read);
  const ChatModel& model = engine_.model;
  // Where the message goes behind an earlier turn its last piece cuts off what follows.
  if (session == nullptr || session->answering || session->asks || session->step >= 0 ||
      model.model().architecture().image_token == patches_token)
    return;
  std::optional<Generation> made;
  {
    WithPending said(*session);
    read.prompt = said.beginning(model);
    if (read.prompt.size() < rows_least) return;
    GenerationOptions options;
    options.tokens_max = 0;
    options.share_prefix = share_prefixes_;
    Result<Generation> begun = model.begin_with(read.prompt, session->messages, options);
    // Rows that see each other are those of the whole message.
    if (!begun.ok() || begun->mask != Mask::causal) return;
    made = std::move(begun).value();
  }
  if (share_prefixes_) {
    const std::size_t found = sessions_.pages().open(made->origin, made->history).tokens();
    if (found + rows_least > read.prompt.size()) return;
  }
  sessions_.go_on_behind(*session, *made, mine.engine().planner());
  read.had = made->sequence.tokens();
  read.task = std::make_unique<GenerationTask>(*std::move(made), &model.tokenizer());
  if (read.prompt.size() - read.had < rows_least) return end(read, mine);
  read.number = mine.add(*read.task);
}

/// A failure is none of the session: its answer finds the same, and says so.
void ReadsAhead::end(Read& read, SharedEngine::Turn& mine) {
  Generation done = read.task->release();
  if (read.number != 0) mine.engine().remove(std::exchange(read.number, 0));
  read.task = nullptr;
  ChatSession* const session = session_of(read);
  if (session == nullptr || session->answering) return;
  const std::size_t kept = std::max(read.had, done.tokens_kept);
  session->ahead.computed += std::max(done.sequence.tokens(), kept) - kept;
  session->ahead.brought += done.tokens_read_back;
  session->origin = std::move(done.origin);
  session->tokens = std::move(read.prompt);
  if (!sessions_.is_among_processes()) session->sequence = std::move(done.sequence);
}

void ReadsAhead::advance(SharedEngine::Turn& mine) {
  for (Read& read : reads_)
    if (read.task != nullptr && read.task->done()) end(read, mine);
  std::erase_if(reads_, [](const Read& read) { return read.task == nullptr && !read.has_more; });
}

void ReadsAhead::stop(const ChatSession& session, SharedEngine::Turn& mine) {
  const auto it =
      std::ranges::find_if(reads_, [&](const Read& read) { return read.id == session.id; });
  if (it == reads_.end()) return;
  if (it->task != nullptr) end(*it, mine);
  reads_.erase(it);
}

void ReadsAhead::stop_all(SharedEngine::Turn& mine) {
  for (const Read& read : reads_)
    if (read.number != 0) mine.engine().remove(read.number);
  reads_.clear();
}

}  // namespace sluice::chat
