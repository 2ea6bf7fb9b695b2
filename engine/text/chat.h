// What is said in a chat, as the text that a model was trained on.
//
// A checkpoint's template (`chat_template` in tokenizer_config.json, or chat_template.jinja) is
// recognised by its marks, not interpreted; families without a chat (PaliGemma, OpenVLA) have their
// prompt instead, and where `TurnTokens` tell turns apart, those do. Pictures stand before the text
// of their message.
// Errors: corrupt (a file that cannot be read), invalid_argument (a template that is none of these,
// by which marks they are known; a role that the template does not have).
// Source: the templates of Llama 2, 3 and 3.1, Qwen2 and 2.5 (VL), Gemma, SmolVLM; PaliGemma's and
// OpenVLA's processors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/picture/picture_input.h"
#include "engine/text/tokenizer.h"

namespace sluice {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string text;
  std::vector<PictureInput> pictures;
  std::string tenant{};  // whose session a user's message is of; empty: nobody's
};

/// A prompt as text.
struct RenderedChat {
  std::string text;
  std::vector<TextRange> said;  // by the messages, and no part of the template; in order, not empty
};

class ChatTemplate {
 public:
  enum class Kind : std::uint8_t {
    chatml,  // Qwen, SmolLM
    llama2,
    llama3,
    llama3_1,  // with a header that tells the date
    gemma,
    smolvlm,
    paligemma,  // one message: the pictures, then the text
    openvla,    // one message: what the robot is to do
    turns,      // tokens of the architecture's, no text
  };

  static Result<ChatTemplate> load(const std::string& directory, const Architecture& architecture);
  /// `text`: the template itself.
  static Result<ChatTemplate> recognise(const std::string& text, const std::string& name);

  Kind kind() const { return kind_; }
  /// Of Llama 3.1's header, as "26 Jul 2024".
  void set_date(std::string date) { date_ = std::move(date); }
  /// The prompt up to where the answer begins; image tokens as many as pictures have rows, but for
  /// OpenVLA's, which have no token. Special tokens are the template's alone: what reads as one in
  /// a message is text.
  Result<std::vector<std::int32_t>> tokens(std::span<const ChatMessage> messages,
                                           const Tokenizer& tokenizer) const;
  /// The same as text. Requires: not `turns`.
  Result<std::string> render(std::span<const ChatMessage> messages) const;
  /// The texts that end an answer, as they stand in the vocabulary.
  std::vector<std::string> ends() const;
  /// Ids behind the prompt that are no text: OpenVLA's.
  std::vector<std::int32_t> last_tokens() const;

 private:
  Result<RenderedChat> rendered(std::span<const ChatMessage> messages) const;
  Result<std::vector<std::int32_t>> turns(std::span<const ChatMessage> messages,
                                          const Tokenizer& tokenizer) const;

  Kind kind_ = Kind::chatml;
  TurnTokens turns_;                // of `turns`
  std::int32_t picture_token_ = 0;  // of `turns`
  std::string default_system_;      // chatml: said when nobody else is the system
  std::string date_ = "26 Jul 2024";
};

}  // namespace sluice
