#include "engine/tasks/chat_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/checkpoint/identity.h"
#include "engine/checkpoint/json_reader.h"
#include "engine/tasks/shared_prefix.h"
#include "engine/text/gguf_tokenizer.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

}  // namespace

/// `eos_token_id` of generation_config.json, or of config.json: a token or several.
std::vector<std::int32_t> open_end_tokens(const std::string& directory) {
  if (is_gguf(directory)) {
    const Result<GgufFile> file = GgufFile::open(directory);
    return file.ok() ? gguf_end_tokens(*file) : std::vector<std::int32_t>();
  }
  for (const char* name : {"/generation_config.json", "/config.json"}) {
    const Result<std::string> text = read_whole_file(directory + name, config_bytes_max);
    const Json json = text.ok() ? Json::parse(*text, nullptr, false) : Json();
    if (!json.is_object()) continue;
    Json ids = json.value("eos_token_id", Json());
    if (ids.is_number_integer()) ids = Json::array({ids});
    std::vector<std::int32_t> tokens;
    if (ids.is_array())
      for (const Json& id : ids)
        if (id.is_number_unsigned() && id.get<std::uint64_t>() < 1U << 24)
          tokens.push_back(id.get<std::int32_t>());
    if (!tokens.empty()) return tokens;
  }
  return {};
}

Result<Tokenizer> open_tokenizer(const std::string& directory) {
  if (is_gguf(directory)) {
    const Result<GgufFile> file = GgufFile::open(directory);
    return file.ok() ? gguf_tokenizer(*file) : Result<Tokenizer>(file.error());
  }
  std::error_code ignored;
  for (const char* name : {"/tokenizer.json", "/tokenizer.model"})
    if (std::filesystem::exists(directory + name, ignored))
      return Tokenizer::load(directory + name);
  return invalid_argument(directory + ": there is neither tokenizer.json nor tokenizer.model");
}

std::size_t ChatModel::encodings() const {
  const std::lock_guard held(seen_->mutex);
  return seen_->encodings;
}

Result<ChatModel> ChatModel::open(const std::string& directory, Model model) {
  if (!model.architecture().text.has_value() || model.architecture().action.has_value())
    return invalid_argument("a model of family " +
                            std::string(to_string(model.architecture().family)) +
                            " does not answer with words");
  Result<Tokenizer> tokenizer = open_tokenizer(directory);
  if (!tokenizer.ok()) return tokenizer.error();
  Result<PictureSteps> steps = PictureSteps();
  if (model.architecture().image_token != -1)
    steps = PictureSteps::load(directory, model.architecture());
  if (!steps.ok()) return steps.error();
  ChatModel made;
  made.chat_ = ChatTemplate::load(directory, model.architecture());
  made.model_ = std::move(model);
  made.tokenizer_ = std::move(tokenizer).value();
  made.steps_ = std::move(steps).value();
  made.end_tokens_ = open_end_tokens(directory);
  if (const auto& turns = made.model_.architecture().turns; turns.has_value())
    made.end_tokens_.push_back(turns->draw);
  if (made.chat_.ok())
    for (const std::string& end : made.chat_->ends()) {
      const std::vector<std::int32_t> ids = made.tokenizer_.encode(end);
      if (ids.size() == 1 && std::ranges::find(made.end_tokens_, ids[0]) == made.end_tokens_.end())
        made.end_tokens_.push_back(ids[0]);
    }
  Result<std::string> named = rows_identity(directory, made.model_, false);
  if (!named.ok()) return named.error();
  made.identity_ = std::move(named).value();
  return made;
}

Result<std::string> rows_identity(const std::string& path, const Model& model, bool by_content) {
  const std::string files = by_content ? checkpoint_content(path) : model.files();
  if (!model.files().empty() && checkpoint_identity(path) != model.files())
    return Error{ErrorCode::unavailable,
                 path +
                     ": its files changed while they were read, and may be of two checkpoints; "
                     "load it again"};
  if (files.empty()) return std::string();
  return files + " at precision " + std::to_string(static_cast<int>(model.format()));
}

Result<void> ChatModel::name_by_content(const std::string& path) {
  Result<std::string> named = rows_identity(path, model_, true);
  if (!named.ok()) return named.error();
  identity_ = std::move(named).value();
  return {};
}

std::optional<PictureInput> ChatModel::find_picture(const std::string& content) const {
  const std::lock_guard held(seen_->mutex);
  const PictureInput* seen = seen_->cache.find(content);
  return seen != nullptr ? std::optional(*seen) : std::nullopt;
}

Result<PictureInput> ChatModel::prepare(const Tensor& picture, const std::string& tenant) const {
  if (model_.architecture().image_token == -1)
    return invalid_argument("the model takes no pictures");
  Result<PictureInput> made = prepare_picture(steps_, model_.architecture(), picture);
  if (made.ok()) made->content = picture_content(picture, tenant);
  return made;
}

void ChatModel::keep_picture(const PictureInput& picture) const {
  const std::lock_guard held(seen_->mutex);
  ++seen_->encodings;
  seen_->cache.keep(picture);
}

Result<PictureInput> ChatModel::encode_picture(const Tensor& picture) const {
  if (std::optional<PictureInput> seen = find_picture(picture_content(picture)))
    return *std::move(seen);
  Result<PictureInput> made = prepare(picture);
  if (!made.ok()) return made;
  Result<std::vector<float>> features = model_.features(made->pixels, made->grids);
  if (!features.ok()) return features.error();
  made->features = std::move(features).value();
  made->pixels = {};
  keep_picture(*made);
  return made;
}

Result<std::vector<std::int32_t>> ChatModel::tokens(std::span<const ChatMessage> messages) const {
  if (!chat_.ok()) return chat_.error();
  Result<std::vector<std::int32_t>> made = chat_->tokens(messages, tokenizer_);
  if (!made.ok()) return made;
  std::vector<std::int32_t>& tokens = *made;
  if (model_.architecture().image_token == patches_token)
    for (const ChatMessage& message : messages)
      for (const PictureInput& picture : message.pictures)
        tokens.insert(tokens.begin() + (tokens.empty() ? 0 : 1), picture.feature_rows,
                      patches_token);
  return made;
}

Result<Generation> ChatModel::begin(std::span<const ChatMessage> messages,
                                    GenerationOptions options) const {
  const Result<std::vector<std::int32_t>> prompt = tokens(messages);
  if (!prompt.ok()) return prompt.error();
  return begin_with(*prompt, messages, std::move(options));
}

Result<Generation> ChatModel::begin_raw(const std::string& text, GenerationOptions options) const {
  return begin_with(tokenizer_.encode(text, true), {}, std::move(options));
}

RowsOrigin ChatModel::origin_of(std::span<const ChatMessage> messages,
                                const std::string& tenant) const {
  RowsOrigin origin{
      .model = identity_, .picture_token = {}, .pictures = {}, .block = 0, .tenant = tenant};
  if (model_.architecture().image_token != -1)
    origin.picture_token = model_.architecture().image_token;
  for (const ChatMessage& message : messages)
    for (const PictureInput& picture : message.pictures)
      origin.pictures.push_back({picture.content, picture.features.size() / model_.text().width()});
  return origin;
}

Result<Generation> ChatModel::begin_with(std::span<const std::int32_t> tokens,
                                         std::span<const ChatMessage> messages,
                                         GenerationOptions options) const {
  if (tokens.empty()) return invalid_argument("the prompt is empty");
  const std::size_t most = model_.text().shape().positions_max;
  if (tokens.size() >= most)
    return invalid_argument("the prompt has " + std::to_string(tokens.size()) +
                            " tokens, the model reads " + std::to_string(most));
  std::vector<float> features;
  std::vector<Grid> grids;
  RowsOrigin origin = origin_of(messages, options.tenant);
  for (const ChatMessage& message : messages)
    for (const PictureInput& picture : message.pictures) {
      features.insert(features.end(), picture.features.begin(), picture.features.end());
      grids.insert(grids.end(), picture.grids.begin(), picture.grids.end());
    }
  std::span<const float> features_left = features;
  std::span<const Grid> grids_left = grids;
  Result<Prompt> prompt = model_.prompt(tokens, features_left, grids_left);
  if (!prompt.ok()) return prompt.error();
  if (!features_left.empty())
    return invalid_argument("the prompt's image tokens are fewer than the pictures' features");
  Generation made;
  made.options = std::move(options);
  made.options.end_tokens.insert(made.options.end_tokens.end(), end_tokens_.begin(),
                                 end_tokens_.end());
  made.history.assign(tokens.begin(), tokens.end());
  made.rows = std::move(prompt->rows);
  made.positions = std::move(prompt->positions);
  made.mask = prompt->mask;
  if (made.mask == Mask::block) origin.block = tokens.size();
  made.origin = std::move(origin);
  made.next_position = prompt->next_position;
  return made;
}

std::size_t ChatModel::keep_prefix(KvPages& pool, KvSequence sequence, const RowsOrigin& origin,
                                   std::span<const std::int32_t> before, Generation& generation,
                                   bool others) const {
  return take_prefix(pool, std::move(sequence), origin, before, generation, model_.text().width(),
                     others);
}

}  // namespace sluice
