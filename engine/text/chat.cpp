#include "engine/text/chat.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/checkpoint/gguf.h"

namespace sluice {

namespace {

using Json = nlohmann::json;
using Kind = ChatTemplate::Kind;

constexpr std::size_t file_bytes_max = std::size_t{4} << 20;

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string trimmed(const std::string& text) {
  constexpr const char* blanks = " \t\n\r\v\f";
  const std::size_t from = text.find_first_not_of(blanks);
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

/// Empty: there is no such file.
Result<std::string> read(const std::string& path) {
  Result<std::string> text = read_whole_file(path, file_bytes_max);
  if (!text.ok() && text.error().code == ErrorCode::not_found) return std::string();
  return text;
}

/// `chat_template` of a JSON file: a text, or a list of named ones of which "default" counts.
Result<std::string> template_in(const std::string& path) {
  Result<std::string> text = read(path);
  if (!text.ok() || text->empty()) return text;
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return Error{ErrorCode::corrupt, path + ": not a JSON object"};
  const auto it = json.find("chat_template");
  if (it == json.end()) return std::string();
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array())
    for (const Json& one : *it)
      if (one.is_object() && one.value("name", Json()) == "default" &&
          one.value("template", Json()).is_string())
        return one["template"].get<std::string>();
  return Error{ErrorCode::corrupt, path +
                                       ": 'chat_template' must be a text, or a list with one "
                                       "that is named 'default'"};
}

/// What a ChatML template says for the system itself: plain text behind the mark. Jinja writes the
/// line's end as two characters or as one.
std::string plain_system(const std::string& text) {
  const std::string mark = "<|im_start|>system";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    std::size_t from = at + mark.size();
    if (text.compare(from, 2, "\\n") == 0)
      from += 2;
    else if (text.compare(from, 1, "\n") == 0)
      from += 1;
    else
      continue;
    const std::size_t end = text.find("<|im_end|>", from);
    if (end == std::string::npos) continue;
    const std::string said = text.substr(from, end - from);
    if (!said.empty() && said.find_first_of("'\"{}") == std::string::npos) return said;
  }
  return "";
}

/// SmolVLM: tiles row by row, then the whole picture.
std::string smolvlm_picture(const PictureInput& picture) {
  const std::size_t tiles = picture.tile_rows * picture.tile_columns;
  const std::string rows = repeated("<image>", picture.feature_rows / (tiles + 1));
  const std::string edge = "<fake_token_around_image>";
  std::string text;
  for (std::size_t row = 1; row <= picture.tile_rows; ++row) {
    for (std::size_t column = 1; column <= picture.tile_columns; ++column)
      text += edge + "<row_" + std::to_string(row) + "_col_" + std::to_string(column) + ">" + rows;
    text += "\n";
  }
  return text + (tiles != 0 ? "\n" : "") + edge + "<global-img>" + rows + edge;
}

std::string qwen_picture(const PictureInput& picture) {
  return "<|vision_start|>" + repeated("<|image_pad|>", picture.feature_rows) + "<|vision_end|>";
}

Error no_role(const std::string& role, const char* what) {
  return invalid_argument("the model's chat template has no role '" + role + "' " + what);
}

/// A prompt as it grows: a template's text, and what others say between.
class Growing {
 public:
  explicit Growing(std::string begin = "") { prompt_.text = std::move(begin); }

  Growing& operator+=(std::string_view of_template) {
    prompt_.text += of_template;
    return *this;
  }
  /// Is no part of the template, whatever stands in it.
  Growing& say(std::string_view text) {
    const std::size_t begin = prompt_.text.size();
    prompt_.text += text;
    if (!text.empty()) prompt_.said.push_back({begin, prompt_.text.size()});
    return *this;
  }
  RenderedChat release() { return std::move(prompt_); }

 private:
  RenderedChat prompt_;
};

RenderedChat chatml(std::span<const ChatMessage> messages, const std::string& system) {
  Growing text;
  if (!system.empty() && (messages.empty() || messages.front().role != "system"))
    text += "<|im_start|>system\n" + system + "<|im_end|>\n";
  for (const ChatMessage& message : messages) {
    text += "<|im_start|>" + message.role + "\n";
    for (const PictureInput& picture : message.pictures) text += qwen_picture(picture);
    text.say(message.text) += "<|im_end|>\n";
  }
  text += "<|im_start|>assistant\n";
  return text.release();
}

RenderedChat llama3(std::span<const ChatMessage> messages, const std::string* date) {
  Growing text("<|begin_of_text|>");
  const auto append_message = [&](const std::string& role, const std::string& before,
                                  const std::string& what) {
    text += "<|start_header_id|>" + role + "<|end_header_id|>\n\n" + before;
    text.say(what) += "<|eot_id|>";
  };
  if (date != nullptr) {
    const bool has_system = !messages.empty() && messages.front().role == "system";
    append_message("system", "Cutting Knowledge Date: December 2023\nToday Date: " + *date + "\n\n",
                   has_system ? trimmed(messages.front().text) : "");
    if (has_system) messages = messages.subspan(1);
  }
  for (const ChatMessage& message : messages)
    append_message(message.role, "", trimmed(message.text));
  text += "<|start_header_id|>assistant<|end_header_id|>\n\n";
  return text.release();
}

Result<RenderedChat> gemma(std::span<const ChatMessage> messages) {
  Growing text("<bos>");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "system") return no_role("system", "(Gemma)");
    if ((message.role == "user") != (i % 2 == 0))
      return invalid_argument("Gemma's chat begins with the user and takes turns");
    text += "<start_of_turn>" + (message.role == "assistant" ? "model" : message.role) + "\n";
    text.say(trimmed(message.text)) += "<end_of_turn>\n";
  }
  text += "<start_of_turn>model\n";
  return text.release();
}

Result<RenderedChat> llama2(std::span<const ChatMessage> messages) {
  std::string system;
  if (!messages.empty() && messages.front().role == "system") {
    system = "<<SYS>>\n" + messages.front().text + "\n<</SYS>>\n\n";
    messages = messages.subspan(1);
  }
  Growing text;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if ((message.role == "user") != (i % 2 == 0))
      return invalid_argument("Llama 2's chat begins with the user and takes turns");
    if (message.role == "user") {
      text += "<s>[INST] ";
      // The system's marks are text for the model too, not tokens.
      text.say(trimmed((i == 0 ? system : "") + message.text)) += " [/INST]";
    } else {
      text += " ";
      text.say(trimmed(message.text)) += " </s>";
    }
  }
  return text.release();
}

RenderedChat smolvlm(std::span<const ChatMessage> messages) {
  Growing text("<|im_start|>");
  for (const ChatMessage& message : messages) {
    std::string role = message.role;
    if (!role.empty())
      role[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(role[0])));
    text += role + (message.pictures.empty() ? ": " : ":");
    for (const PictureInput& picture : message.pictures) text += smolvlm_picture(picture);
    text.say(message.text) += "<end_of_utterance>\n";
  }
  text += "Assistant:";
  return text.release();
}

Result<RenderedChat> one_prompt(Kind kind, std::span<const ChatMessage> messages) {
  if (messages.size() != 1 || messages.front().role != "user")
    return invalid_argument("this model takes one prompt of the user, not a chat");
  const ChatMessage& message = messages.front();
  if (kind == Kind::paligemma) {
    std::size_t rows = 0;
    for (const PictureInput& picture : message.pictures) rows += picture.feature_rows;
    Growing text(repeated("<image>", rows) + "<bos>");
    text.say(message.text) += "\n";
    return text.release();
  }
  std::string lower = message.text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  Growing text("<s>In: What action should the robot take to ");
  text.say(lower) += "?\nOut:";
  return text.release();
}

}  // namespace

Result<ChatTemplate> ChatTemplate::recognise(const std::string& text, const std::string& name) {
  const auto has = [&](const char* mark) { return text.find(mark) != std::string::npos; };
  ChatTemplate made;
  if (has("<|start_header_id|>"))
    made.kind_ = has("Cutting Knowledge Date") ? Kind::llama3_1 : Kind::llama3;
  else if (has("<start_of_turn>"))
    made.kind_ = Kind::gemma;
  else if (has("<end_of_utterance>"))
    made.kind_ = Kind::smolvlm;
  else if (has("<|im_start|>"))
    made.kind_ = Kind::chatml;
  else if (has("[INST]") && has("<<SYS>>"))
    made.kind_ = Kind::llama2;
  else
    return invalid_argument(name +
                            ": the chat template is not one that is supported; those have "
                            "<|im_start|>, <|start_header_id|>, <start_of_turn>, "
                            "<end_of_utterance>, or [INST] with <<SYS>>. Give the prompt as "
                            "the model wants it, raw");
  if (made.kind_ == Kind::chatml) made.default_system_ = plain_system(text);
  return made;
}

Result<ChatTemplate> ChatTemplate::load(const std::string& directory,
                                        const Architecture& architecture) {
  ChatTemplate made;
  if (architecture.family == Family::paligemma || architecture.family == Family::openvla) {
    made.kind_ = architecture.family == Family::paligemma ? Kind::paligemma : Kind::openvla;
    return made;
  }
  if (architecture.turns.has_value()) {
    made.kind_ = Kind::turns;
    made.turns_ = *architecture.turns;
    made.picture_token_ = architecture.image_token;
    return made;
  }
  if (is_gguf(directory)) {
    const Result<GgufFile> file = GgufFile::open(directory);
    if (!file.ok()) return file.error();
    const auto said = file->text("tokenizer.chat_template");
    if (said.has_value()) return recognise(std::string(*said), directory);
    return invalid_argument(directory +
                            ": there is no chat template (tokenizer.chat_template). Give the "
                            "prompt as the model wants it, raw");
  }
  Result<std::string> text = read(directory + "/chat_template.jinja");
  for (const char* name : {"/chat_template.json", "/tokenizer_config.json"})
    if (text.ok() && text->empty()) text = template_in(directory + name);
  if (!text.ok()) return text.error();
  if (text->empty())
    return invalid_argument(directory +
                            ": there is no chat template (chat_template.jinja, or "
                            "'chat_template' in tokenizer_config.json). Give the "
                            "prompt as the model wants it, raw");
  return recognise(*text, directory);
}

Result<RenderedChat> ChatTemplate::rendered(std::span<const ChatMessage> messages) const {
  const bool takes_pictures = kind_ == Kind::chatml || kind_ == Kind::smolvlm ||
                              kind_ == Kind::paligemma || kind_ == Kind::openvla;
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      return no_role(message.role, "; there are system, user and assistant");
    if (!message.pictures.empty() && !takes_pictures)
      return invalid_argument("the model's chat template takes no pictures");
  }
  switch (kind_) {
    case Kind::chatml:
      return chatml(messages, default_system_);
    case Kind::llama2:
      return llama2(messages);
    case Kind::llama3:
      return llama3(messages, nullptr);
    case Kind::llama3_1:
      return llama3(messages, &date_);
    case Kind::gemma:
      return gemma(messages);
    case Kind::smolvlm:
      return smolvlm(messages);
    case Kind::paligemma:
    case Kind::openvla:
      return one_prompt(kind_, messages);
    case Kind::turns:
      break;
  }
  return invalid_argument("the model's chat is tokens, no text");
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages) const {
  Result<RenderedChat> made = rendered(messages);
  if (!made.ok()) return made.error();
  return std::move(made->text);
}

/// The answers stand as they were said: what is told again is what was computed.
Result<std::vector<std::int32_t>> ChatTemplate::turns(std::span<const ChatMessage> messages,
                                                      const Tokenizer& tokenizer) const {
  std::vector<std::int32_t> ids{turns_.bos};
  for (const ChatMessage& message : messages) {
    if (message.role == "system") return no_role(message.role, "(models/scenes)");
    const bool asks = message.role == "user";
    ids.push_back(asks ? turns_.user : turns_.assistant);
    for (const PictureInput& picture : message.pictures) {
      ids.push_back(turns_.image);
      ids.insert(ids.end(), picture.feature_rows, picture_token_);
      ids.push_back(turns_.image_end);
    }
    const TextRange said{0, message.text.size()};
    const std::vector<std::int32_t> words = tokenizer.encode_quoting(message.text, {&said, 1});
    ids.insert(ids.end(), words.begin(), words.end());
    if (!asks) ids.push_back(turns_.eos);
  }
  ids.push_back(turns_.assistant);
  return ids;
}

Result<std::vector<std::int32_t>> ChatTemplate::tokens(std::span<const ChatMessage> messages,
                                                       const Tokenizer& tokenizer) const {
  if (kind_ == Kind::turns) return turns(messages, tokenizer);
  const Result<RenderedChat> text = rendered(messages);
  if (!text.ok()) return text.error();
  std::vector<std::int32_t> ids = tokenizer.encode_quoting(text->text, text->said);
  for (const std::int32_t last : last_tokens())
    if (ids.empty() || ids.back() != last) ids.push_back(last);
  return ids;
}

std::vector<std::string> ChatTemplate::ends() const {
  switch (kind_) {
    case Kind::chatml:
      return {"<|im_end|>", "<|endoftext|>"};
    case Kind::llama2:
      return {"</s>"};
    case Kind::llama3:
    case Kind::llama3_1:
      return {"<|eot_id|>", "<|end_of_text|>"};
    case Kind::gemma:
      return {"<end_of_turn>", "<eos>"};
    case Kind::smolvlm:
      return {"<end_of_utterance>"};
    case Kind::paligemma:
      return {"<eos>"};
    case Kind::openvla:
      return {"</s>"};
    case Kind::turns:  // tokens of the configuration
      break;
  }
  return {};
}

std::vector<std::int32_t> ChatTemplate::last_tokens() const {
  // Llama's blank before a word: OpenVLA's prompts end with it.
  if (kind_ == Kind::openvla) return {29871};
  return {};
}

}  // namespace sluice
