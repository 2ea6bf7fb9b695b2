// A chat with a checkpoint: texts and pictures in, a generation ready to run out.
//
// Joins a model with its tokenizer, its chat template and its picture preprocessing.
// Thread: any; immutable after `open`, a lock guards what is remembered of pictures.
// Errors: as those four; invalid_argument (no tokenizer, a prompt that is longer than the model
// reads); unavailable (files that changed while they were read: load it again).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/family/model.h"
#include "engine/picture/picture_cache.h"
#include "engine/tasks/generator.h"
#include "engine/text/chat.h"

namespace sluice {

/// Of a directory that holds tokenizer.json or tokenizer.model, or of a GGUF file.
Result<Tokenizer> open_tokenizer(const std::string& path);

/// Those that end an answer, as generation_config.json or config.json say, or a GGUF file.
std::vector<std::int32_t> open_end_tokens(const std::string& path);

/// Of the rows that a model makes, for who shares them: its checkpoint and precision. `by_content`:
/// by its files' bytes, not by where they lie, so the same on all machines. Behind all that is read
/// of `path`, from which it was opened: rows of one checkpoint's weights must not go under
/// another's name, and a tokenizer may not be the weights'. Empty: it was opened from no files.
/// Errors: unavailable (they have changed since).
Result<std::string> rows_identity(const std::string& path, const Model& model, bool by_content);

class ChatModel {
 public:
  /// `path`: a directory that also holds tokenizer.json or tokenizer.model, or a GGUF file. Its
  /// rows are shared, by the name of the files, where `model` was opened from there.
  static Result<ChatModel> open(const std::string& path, Model model);

  /// Named by its files' bytes from now on, not by where they lie: the same on all machines.
  Result<void> name_by_content(const std::string& path);
  /// A GPU makes its rows from now on, which another order of sums makes others than the CPU's.
  void name_as_device() {
    if (!identity_.empty()) identity_ += " on a GPU";
  }

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Why there is none, when there is none: then only raw prompts.
  const Result<ChatTemplate>& chat() const { return chat_; }

  /// u8 [height, width, 3], prepared and encoded: a picture is seen once, however long the chat and
  /// whoever shows it, while there is room for what it became.
  Result<PictureInput> encode_picture(const Tensor& picture) const;
  /// The same in parts, for who encodes it as a task: what it became, if it was seen before;
  /// prepared, with its `pixels` and `content`; with its features instead, for who shows it next.
  std::optional<PictureInput> find_picture(const std::string& content) const;
  Result<PictureInput> prepare(const Tensor& picture, const std::string& tenant = {}) const;
  void keep_picture(const PictureInput& picture) const;
  /// Of the rows that it makes: checkpoint and precision.
  const std::string& identity() const { return identity_; }
  /// How many pictures have been encoded.
  std::size_t encodings() const;
  /// The prompt's tokens, image tokens as many as features.
  Result<std::vector<std::int32_t>> tokens(std::span<const ChatMessage> messages) const;
  /// What else than their tokens decides their rows, where these see only what is before them.
  RowsOrigin origin_of(std::span<const ChatMessage> messages, const std::string& tenant) const;
  /// An answer's beginning. End tokens are added to the options'.
  Result<Generation> begin(std::span<const ChatMessage> messages, GenerationOptions options) const;
  /// The text as it is, with what the tokenizer adds.
  Result<Generation> begin_raw(const std::string& text, GenerationOptions options) const;
  /// With tokens that `tokens` made of the same messages.
  Result<Generation> begin_with(std::span<const std::int32_t> tokens,
                                std::span<const ChatMessage> messages,
                                GenerationOptions options) const;
  /// Gives a generation that is not yet begun the keys and values it shares with what was said
  /// before: `sequence` holds the first of `before`, which is of that origin; or with others, if
  /// that is more and `others` may be looked at before it is admitted. Returns how many tokens it
  /// need not compute; the last is always computed.
  std::size_t keep_prefix(KvPages& pool, KvSequence sequence, const RowsOrigin& origin,
                          std::span<const std::int32_t> before, Generation& generation,
                          bool others) const;

 private:
  static constexpr std::size_t seen_bytes_max = std::size_t{64} << 20U;
  /// Pictures so far.
  struct Seen {
    std::mutex mutex;
    PictureCache cache{seen_bytes_max};
    std::size_t encodings = 0;
  };

  Model model_;
  Tokenizer tokenizer_;
  PictureSteps steps_;
  Result<ChatTemplate> chat_ = Error{};
  std::vector<std::int32_t> end_tokens_;  // the checkpoint's own
  std::string identity_;
  std::unique_ptr<Seen> seen_ = std::make_unique<Seen>();
};

}  // namespace sluice
