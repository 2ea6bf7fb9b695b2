// The global parameter `chat_kv`: what each session of a chat has said, and its keys and values.
//
// Shared by the replicas of a `chat_model`. Thread: take `lock` around every use.
// Source: omni-flow, section 4.1 (global params pool).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/tasks/chat_model.h"
#include "roles/catalog.h"

namespace sluice {

/// A chat so far. While an answer is being made its pages are with the generation.
struct ChatSession {
  std::vector<Message> messages;
  Message pending{"user", "", {}};   // of the turn that is being said
  std::uint64_t call = 0;            // whose turn that is
  std::uint64_t failed_call = 0;     // whose turn failed: the rest of it is refused
  KvSequence sequence;               // of the first `sequence.tokens` tokens below
  std::vector<std::int32_t> tokens;  // of all messages
  bool answering = false;
};

class ChatSessions final : public GlobalParam {
 public:
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making);

  /// A session that answers right now lives until the answer ends.
  void end_session(std::string_view session) override;

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  ChatSession& session(std::string_view name);
  /// Null: it has ended.
  ChatSession* find(std::string_view name);
  KvPool& pool() { return *pool_; }

 private:
  std::unique_ptr<KvPool> pool_;
  std::map<std::string, ChatSession, std::less<>> sessions_;
  std::mutex mutex_;
};

}  // namespace sluice
