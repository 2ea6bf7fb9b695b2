// The global parameter `paged_kv`: the backbone's weights, the page pool, and each session's
// conversation.
//
// Shared by the roles that list it: the language model writes, the denoiser reads the same pages in
// place. Thread: take `lock` around every use; the roles may run on different threads.
// Source: omni-flow, section 4.1 (global params pool) and 5.3 (the diffusion model on the LLM's
// KV).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/layers/decoder.h"
#include "engine/layers/kv.h"
#include "engine/scenes/config.h"
#include "engine/text/tokenizer.h"
#include "roles/catalog.h"

namespace sluice {

/// What a session has said so far.
struct Conversation {
  /// What stood before the last turn, to go back to when it fails or is never answered.
  struct Before {
    std::size_t tokens = 0;
    std::vector<std::int32_t> unwritten;
    Tensor latents;
  };

  KvSequence sequence;
  std::vector<std::int32_t>
      unwritten;         // tokens of the last turn that the next forward writes first
  bool in_turn = false;  // <user> stands, <assistant> does not yet
  Tensor latents;        // of the last picture, for a drawing that starts from it
  Before before;
  std::uint64_t call = 0;         // whose turn the last one is
  std::uint64_t failed_call = 0;  // whose turn failed: the rest of it is refused
};

class PagedKv final : public GlobalParam {
 public:
  static Result<std::unique_ptr<GlobalParam>> make(const GlobalParamMaking& making);

  void end_session(std::string_view session) override;

  Conversation& conversation(std::string_view session);
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  const ModelConfig& config() const { return config_; }
  const Decoder& backbone() const { return backbone_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const SafetensorsFile& file() const { return file_; }
  const std::string& directory() const { return directory_; }
  KvPool& pool() { return *pool_; }

 private:
  std::string directory_;
  ModelConfig config_;
  SafetensorsFile file_;
  Tokenizer tokenizer_;
  Decoder backbone_;
  std::unique_ptr<KvPool> pool_;
  std::map<std::string, Conversation, std::less<>> conversations_;
  std::mutex mutex_;
};

/// The role's shared parameter of this kind. Errors: invalid_argument, naming the role.
Result<PagedKv*> paged_kv_of(const RoleMaking& making);

}  // namespace sluice
