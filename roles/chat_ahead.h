// The beginning of a message that is not said whole yet: computed while the rest is on its way.
//
// A message comes in pieces, and a picture in it when its encoder has seen it. What stands before
// the pieces that are to come (the history where its pages are gone, what the template says, the
// pictures that are here) decides rows already, so these are computed meanwhile, and the answer
// begins behind them. It is the answer of a message that comes whole, by the rounding of sums.
// Only a message's first piece, and each that shows pictures, begins a read; its activation ends
// when the read does, or when its session's next piece is taken. Thread: the role's, whose turn of
// the engine it is. Source: omni-flow, section 5.1 (segments that are computed as soon as their
// frames arrive).
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
  /// Fewer rows are left to the answer: a forward for them alone costs what it spares. So is less
  /// than one row of `part_least` of the prompt, whose rows are all laid out for it.
  static constexpr std::size_t rows_least = 64, part_least = 32;

  ReadsAhead(ChatEngine& engine, ChatSessions& sessions, std::string role, bool share_prefixes)
      : engine_(engine),
        sessions_(sessions),
        role_(std::move(role)),
        share_prefixes_(share_prefixes) {}

  /// No piece is held here.
  bool is_idle() const { return reads_.empty(); }
  /// A piece of the session's message was taken, its first or one with pictures, and others are to
  /// come.
  void piece_came(const ChatSession& session, Activation& piece);
  /// Behind all pieces that could be taken. What waits for a picture that this engine encodes is
  /// left alone, and so is what finds too few free pages: neither would be sooner.
  void begin(const std::deque<Piece>& waiting, SharedEngine::Turn& mine,
             std::vector<StepOutcome>& ended);
  /// Those that are done, cancelled, or would wait for pages.
  void advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);
  /// The session's next piece is taken: what has been computed until now is the session's.
  void stop(const ChatSession& session, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);
  void stop_all(SharedEngine::Turn& mine);

 private:
  struct Read {
    Activation* piece = nullptr;
    std::string session;
    std::uint64_t id = 0;  // of that session
    std::vector<std::int32_t> prompt = {};
    std::size_t had = 0;                             // of these, in the session's pages
    std::unique_ptr<GenerationTask> task = nullptr;  // in the engine; null: it has not begun
    TaskId number = 0;
  };

  ChatSession* session_of(const Read& read);
  void begin(Read& read, SharedEngine::Turn& mine);
  void end(Read& read, SharedEngine::Turn& mine);
  bool is_there(const ChatSession& session, const RowsOrigin& origin,
                const std::vector<std::int32_t>& prompt, bool of_others);

  ChatEngine& engine_;
  ChatSessions& sessions_;
  const std::string role_;
  const bool share_prefixes_;
  std::vector<Read> reads_;  // one of each session at most
};

}  // namespace sluice::chat
