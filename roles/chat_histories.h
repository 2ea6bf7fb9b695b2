// The histories of chats that somebody else keeps: what is to be told of them, and what was
// answered to the question where a session goes on.
//
// The conversations themselves are `ChatSessions`'; a session that nobody has asked for is told to
// nobody and costs nothing. Thread: any; it waits for no forward. Bounds: 8 bytes for each message
// of a session that is told, and what is on its way.
// Source: docs/CLUSTER.md, "What a session has said".
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/session_history.h"
#include "engine/text/chat.h"

namespace sluice {

/// A prompt that another machine answers: where its answer belongs.
struct HistoryPlace {
  std::string role{};  // that has the conversation; empty: it is told to nobody
  HistoryMark behind{};
};

class ChatHistories {
 public:
  /// Where a session goes on: with its first `behind.count` messages, and these.
  struct Settled {
    HistoryMark behind{};
    std::vector<ChatMessage> messages{};
  };

  // Whoever drives the workflow.
  std::optional<HistoryMark> ask(const std::string& session, const std::string& role,
                                 std::uint32_t life);
  /// `settled`: none: as it is.
  void settle(const std::string& session, const std::string& role, std::uint32_t life,
              std::optional<Settled> settled, bool is_told);
  void dropped(const std::string& session, const std::string& role);
  std::vector<ToldHistory> take(const std::string& session);
  void end_session(std::string_view session);

  // The role, in its turn of the engine.
  /// None: the session goes on as it is.
  std::optional<Settled> take_settled(const std::string& session, const std::string& role);
  /// The number behind so many messages that were said. False: they are other ones.
  bool is_at(const std::string& session, const std::string& role, const HistoryMark& mark);
  /// The session was set to these messages.
  void set(const std::string& session, const std::string& role,
           std::span<const ChatMessage> messages);
  /// What is behind the first `count` messages is void: all that comes in its place is told.
  void cut(const std::string& session, const std::string& role, std::size_t count);
  /// The last `fresh` of the messages were said in this turn, and `complete` are whole turns. Of
  /// what another machine tells, `is_told_elsewhere`, only the numbers are kept.
  void said(const std::string& session, const std::string& role,
            std::span<const ChatMessage> messages, std::size_t fresh, std::size_t complete,
            bool is_told_elsewhere = false);
  /// Behind all that was said. Its role is empty where the session is told to nobody.
  HistoryPlace place(const std::string& session, const std::string& role);
  /// What was answered for another machine's conversation.
  void said_for(const std::string& session, const HistoryPlace& place, const ChatMessage& answer);

 private:
  using Key = std::pair<std::string, std::string>;  // session and role
  struct Entry {
    std::uint32_t life = 0;  // in which it was settled
    bool is_told = false;
    bool is_too_large = false;         // so it is told no more
    std::vector<std::uint64_t> chain;  // behind each message
    std::size_t told = 0;              // messages that were told
    std::optional<Settled> settled;
  };

  static HistoryMark mark(const Entry& entry, std::size_t count) {
    return {static_cast<std::uint32_t>(count), count == 0 ? 0 : entry.chain[count - 1]};
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::map<std::string, std::vector<ToldHistory>> told_;  // by session, not yet taken
  std::atomic<std::size_t> settled_{0};                   // that no role has looked at yet
};

}  // namespace sluice
