// The beginning of a message that is not said whole yet: computed while the rest is on its way.
//
// A message comes in pieces, and a picture in it when its encoder has seen it. What stands before
// the pieces that are to come (the history where its pages are gone, what the template says, the
// pictures that are here) decides rows already, so these are computed meanwhile, and the answer
// begins behind them. Its rows and its text are those of a message that came whole.
// Thread: the role's, whose turn of the engine it is.
// Source: omni-flow, section 5.1 (segments that are computed as soon as their frames arrive).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "roles/chat_sessions.h"
#include "roles/chat_turn.h"

namespace sluice::chat {

class ReadsAhead {
 public:
  /// Fewer are left to the answer: a forward for them alone costs what it spares.
  static constexpr std::size_t rows_least = 64;

  ReadsAhead(ChatEngine& engine, ChatSessions& sessions, std::string role, bool share_prefixes)
      : engine_(engine),
        sessions_(sessions),
        role_(std::move(role)),
        share_prefixes_(share_prefixes) {}

  /// Nothing is under way.
  bool is_idle() const { return reads_.empty(); }
  /// A piece of the session's message was taken, and others are to come.
  void piece_came(const ChatSession& session);
  /// Behind all pieces that could be taken. What waits for a picture that this engine encodes is
  /// left alone, and so is who waits for pages: neither would be sooner.
  void begin(const std::deque<Piece>& waiting, SharedEngine::Turn& mine);
  /// Those that have ended: what was computed is the session's.
  void advance(SharedEngine::Turn& mine);
  /// The message is whole: what has been computed of it until now is the session's.
  void stop(const ChatSession& session, SharedEngine::Turn& mine);
  void stop_all(SharedEngine::Turn& mine);

 private:
  struct Read {
    std::string session;
    std::uint64_t id = 0;  // of that session
    bool has_more = true;  // pieces that `task` does not know of
    std::vector<std::int32_t> prompt = {};
    std::size_t had = 0;                             // of these, in the session's pages
    std::unique_ptr<GenerationTask> task = nullptr;  // under way
    TaskId number = 0;
  };

  ChatSession* session_of(const Read& read);
  void begin(Read& read, SharedEngine::Turn& mine);
  void end(Read& read, SharedEngine::Turn& mine);

  ChatEngine& engine_;
  ChatSessions& sessions_;
  const std::string role_;
  const bool share_prefixes_;
  std::vector<Read> reads_;  // one of each session at most
};

}  // namespace sluice::chat
