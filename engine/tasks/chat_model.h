// A chat with a checkpoint: texts and pictures in, a generation ready to run out.
//
// Joins a model with its tokenizer, its chat template and its picture preprocessing.
// Thread: immutable after `open`. Errors: as those four; invalid_argument (no tokenizer, a prompt
// that is longer than the model reads).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/family/model.h"
#include "engine/tasks/generator.h"
#include "engine/text/chat.h"

namespace sluice {

class ChatModel {
 public:
  /// `path`: a directory that also holds tokenizer.json or tokenizer.model, or a GGUF file.
  static Result<ChatModel> open(const std::string& path, Model model);

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Why there is none, when there is none: then only raw prompts.
  const Result<ChatTemplate>& chat() const { return chat_; }

  /// u8 [height, width, 3], prepared and encoded: a picture is seen once, however long the chat.
  Result<PictureInput> encode_picture(const Tensor& picture) const;
  /// The prompt's tokens, image tokens as many as features.
  Result<std::vector<std::int32_t>> tokens(std::span<const Message> messages) const;
  /// An answer's beginning. End tokens are added to the options'.
  Result<Generation> begin(std::span<const Message> messages, GenerationOptions options) const;
  /// The text as it is, with what the tokenizer adds.
  Result<Generation> begin_raw(const std::string& text, GenerationOptions options) const;
  /// With tokens that `tokens` made of the same messages.
  Result<Generation> begin_with(std::span<const std::int32_t> tokens,
                                std::span<const Message> messages, GenerationOptions options) const;
  /// Gives a generation that is not yet begun the keys and values it shares with what was said
  /// before: `sequence` holds the first of `before`, `prompt` is the generation's. Returns how many
  /// tokens it need not compute; the last is always computed.
  std::size_t keep_prefix(KvPages& pool, KvSequence sequence, std::span<const std::int32_t> before,
                          std::span<const std::int32_t> prompt, Generation& generation) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
  PictureSteps steps_;
  Result<ChatTemplate> chat_ = Error{};
  std::vector<std::int32_t> end_tokens_;  // the checkpoint's own
};

}  // namespace sluice
