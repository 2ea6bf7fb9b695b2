#include "roles/language_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/random.h"
#include "graph/diagnostic.h"
#include "kernels/sample.h"
#include "roles/paged_kv.h"

namespace sluice {

namespace {

/// Prompt tokens of one sequence in one forward: a long prompt does not hold up the others.
constexpr std::size_t chunk_tokens = 128;
constexpr std::int64_t answer_tokens_default = 64;

/// One admitted activation of `generate`.
struct Turn {
  Activation* activation = nullptr;
  std::vector<float> prompt;  // rows not yet written
  bool answers = false;
  std::vector<std::pair<std::string, std::int64_t>> options;
  bool begun = false;     // it is its session's turn
  std::int64_t made = 0;  // tokens of the answer
  std::vector<float> last_hidden;

  std::int64_t option(std::string_view name, std::int64_t otherwise) const {
    for (const auto& [key, value] : options)
      if (key == name) return value;
    return otherwise;
  }
};

class LanguageModel final : public SteppedRole {
 public:
  explicit LanguageModel(PagedKv& kv) : kv_(kv) {}

  void admit(Activation& activation) override {
    if (activation.interface() == "embed") {
      embed(activation);
      done_.push_back({&activation, {}});
    } else {
      turns_.push_back(std::make_unique<Turn>());
      turns_.back()->activation = &activation;
    }
  }
  bool busy() const override { return !turns_.empty() || !done_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  void embed(Activation& activation);
  /// When no other turn of its session is under way, for it changes what the session has said.
  Result<void> begin(Turn& turn);
  Result<void> append_pictures(Turn& turn, Conversation& conversation);
  Result<void> append_rows(Turn& turn, const Tensor& rows) const;
  void advance(Turn& turn, std::vector<float> hidden);
  /// True when the answer ended.
  bool yield_token(Turn& turn);
  void finish(Turn& turn, Result<void> result);
  /// To what stood before the conversation's last turn.
  void roll_back(Conversation& conversation);

  PagedKv& kv_;
  std::vector<std::unique_ptr<Turn>> turns_;
  std::vector<StepOutcome> done_;
};

/// What the caller should know of words that the model reads as one unknown word.
std::string unknown_text(const std::vector<std::string>& words, const std::string& directory) {
  constexpr std::size_t named_max = 8;
  std::string text =
      "the model does not know the word" + std::string(words.size() > 1 ? "s " : " ");
  for (std::size_t i = 0; i < std::min(words.size(), named_max); ++i) {
    std::string word = words[i];
    std::ranges::replace_if(
        word, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
    text += (i == 0 ? "" : ", ") + in_quotes(word);
  }
  if (words.size() > named_max)
    text += " and " + std::to_string(words.size() - named_max) + " more";
  return text + "; those it knows: " + directory + "/README.md";
}

void LanguageModel::embed(Activation& activation) {
  const Payload* text = activation.input("text");
  if (const auto words = kv_.tokenizer().unknown_words(text->text); !words.empty())
    activation.warn(unknown_text(words, kv_.directory()));
  const std::vector<std::int32_t> ids = kv_.tokenizer().encode(text->text);
  std::vector<float> rows;
  kv_.backbone().embed(ids, rows);
  const auto count = static_cast<std::int64_t>(ids.size());
  activation.yield(
      "hidden",
      make_tensor(Tensor::of_f32({count, static_cast<std::int64_t>(kv_.backbone().width())},
                                 std::move(rows)),
                  text->attributes));
}

Result<void> LanguageModel::append_rows(Turn& turn, const Tensor& rows) const {
  const auto width = static_cast<std::int64_t>(kv_.backbone().width());
  if (rows.dtype() != Dtype::f32 || rows.count() % width != 0)
    return invalid_argument("the rows are " + rows.describe() +
                            ", this model needs f32 rows of width " + std::to_string(width));
  turn.prompt.insert(turn.prompt.end(), rows.f32().begin(), rows.f32().end());
  return {};
}

Result<void> LanguageModel::append_pictures(Turn& turn, Conversation& conversation) {
  const ModelConfig& config = kv_.config();
  const std::int32_t open = config.image;
  const std::int32_t close = config.image_end;
  for (const PayloadRef& features : turn.activation->inputs("features")) {
    kv_.backbone().embed({&open, 1}, turn.prompt);
    if (Result<void> added = append_rows(turn, features->tensor); !added.ok()) return added;
    kv_.backbone().embed({&close, 1}, turn.prompt);
  }
  for (const PayloadRef& latents : turn.activation->inputs("latents"))
    conversation.latents = latents->tensor;
  return {};
}

Result<void> LanguageModel::begin(Turn& turn) {
  const Activation& activation = *turn.activation;
  Conversation& conversation = kv_.conversation(activation.session());
  if (conversation.failed_call == activation.call())
    return Error{ErrorCode::cancelled, "an earlier piece of this turn failed"};
  // What another call began and did not end (it was cancelled between two pieces) was not said.
  if (conversation.in_turn && conversation.call != activation.call()) roll_back(conversation);
  turn.begun = true;
  if (!conversation.in_turn)
    conversation.before = {conversation.sequence.tokens(), conversation.unwritten,
                           conversation.latents};
  conversation.call = activation.call();
  const ModelConfig& config = kv_.config();
  std::vector<std::int32_t> opening = std::exchange(conversation.unwritten, {});
  if (conversation.sequence.tokens() == 0 && opening.empty()) opening.push_back(config.bos);
  if (!conversation.in_turn) opening.push_back(config.user);
  conversation.in_turn = true;
  kv_.backbone().embed(opening, turn.prompt);
  if (Result<void> added = append_pictures(turn, conversation); !added.ok()) return added;
  for (const PayloadRef& hidden : activation.inputs("hidden")) {
    if (Result<void> added = append_rows(turn, hidden->tensor); !added.ok()) return added;
    turn.options = hidden->attributes;
    turn.answers = turn.answers || hidden->attribute("generate").value_or(1) != 0;
  }
  if (turn.answers) {
    kv_.backbone().embed({&config.assistant, 1}, turn.prompt);
    conversation.in_turn = false;
  }
  return {};
}

void LanguageModel::roll_back(Conversation& conversation) {
  // Fewer tokens than before: the session has ended meanwhile, and begun anew.
  if (conversation.sequence.tokens() < conversation.before.tokens) return;
  kv_.pool().truncate(conversation.sequence, conversation.before.tokens);
  conversation.unwritten = conversation.before.unwritten;
  conversation.latents = conversation.before.latents;
  conversation.in_turn = false;
}

void LanguageModel::finish(Turn& turn, Result<void> result) {
  if (!result.ok() && turn.begun) {
    Conversation& conversation = kv_.conversation(turn.activation->session());
    roll_back(conversation);
    conversation.failed_call = turn.activation->call();
  }
  done_.push_back({turn.activation, std::move(result)});
  turn.activation = nullptr;
}

bool LanguageModel::yield_token(Turn& turn) {
  const ModelConfig& config = kv_.config();
  Conversation& conversation = kv_.conversation(turn.activation->session());
  std::vector<float> logits;
  kv_.backbone().logits(turn.last_hidden, logits);
  const kernels::SampleOptions options{
      static_cast<float>(turn.option("temperature_milli", 0)) / 1000.0F,
      static_cast<std::size_t>(turn.option("top_k", 0)),
      static_cast<float>(turn.option("top_p_milli", 1000)) / 1000.0F};
  SplitMix64 random(static_cast<std::uint64_t>(turn.option("seed", 0)) ^
                    (static_cast<std::uint64_t>(turn.made) << 32));
  const std::int32_t token = kernels::sample(logits, {}, options, random.uniform());
  ++turn.made;
  if (token == config.eos) {
    conversation.unwritten = {config.eos};
    return true;
  }
  if (token == config.draw) {
    turn.prompt.clear();
    kv_.backbone().embed({&token, 1}, turn.prompt);
    std::vector<float> hidden;
    const Chunk chunk{&conversation.sequence, turn.prompt};
    if (Result<void> written = kv_.backbone().forward(kv_.pool(), {&chunk, 1}, hidden);
        !written.ok()) {
      finish(turn, written);
      return false;
    }
    conversation.unwritten = {config.eos};
    std::vector<std::pair<std::string, std::int64_t>> attributes = turn.options;
    attributes.emplace_back("length", static_cast<std::int64_t>(conversation.sequence.tokens()));
    const bool start_from_picture =
        turn.option("strength_milli", 1000) < 1000 && !conversation.latents.empty();
    turn.activation->yield(
        "draw_prompt",
        make_tensor(start_from_picture ? conversation.latents : Tensor(), std::move(attributes)));
    return true;
  }
  const bool last = turn.made >= turn.option("max_tokens", answer_tokens_default);
  auto* text = new Payload;
  text->type = ValueType::text;
  text->text = (turn.made > 1 ? " " : "") + std::string(kv_.tokenizer().word(token));
  if (last) text->attributes.emplace_back("cut_off", 1);
  turn.activation->yield("token", PayloadRef(text));
  turn.prompt.clear();
  kv_.backbone().embed({&token, 1}, turn.prompt);
  if (last) conversation.unwritten = {token, config.eos};
  return last;
}

void LanguageModel::advance(Turn& turn, std::vector<float> hidden) {
  if (!turn.prompt.empty()) return;
  if (!turn.answers) return finish(turn, {});
  const std::size_t width = kv_.backbone().width();
  turn.last_hidden.assign(hidden.end() - static_cast<std::ptrdiff_t>(width), hidden.end());
  if (yield_token(turn)) finish(turn, {});
}

void LanguageModel::step(std::vector<StepOutcome>& ended) {
  const auto held = kv_.lock();
  const std::size_t width = kv_.backbone().width();
  std::vector<Chunk> chunks;
  std::vector<Turn*> active;
  std::vector<const KvSequence*> seen;
  for (const auto& turn : turns_) {
    if (turn->activation->cancelled()) {
      finish(*turn, Error{ErrorCode::cancelled, "the call was cancelled"});
      continue;
    }
    KvSequence& sequence = kv_.conversation(turn->activation->session()).sequence;
    // Two calls of one session (`calls: overlap`) take turns: a sequence grows in one place.
    if (std::ranges::find(seen, &sequence) != seen.end()) continue;
    seen.push_back(&sequence);
    if (!turn->begun)
      if (Result<void> begun = begin(*turn); !begun.ok()) {
        finish(*turn, begun);
        continue;
      }
    const std::size_t count = std::min(turn->prompt.size(), chunk_tokens * width);
    chunks.push_back({&sequence, std::span(turn->prompt).first(count)});
    active.push_back(turn.get());
  }
  std::vector<float> hidden;
  const Result<void> ran =
      chunks.empty() ? Result<void>() : kv_.backbone().forward(kv_.pool(), chunks, hidden);
  std::size_t at = 0;
  for (std::size_t i = 0; i < active.size(); ++i) {
    Turn& turn = *active[i];
    // When all together do not fit, each is tried alone, so that only what does not fit fails.
    std::vector<float> own;
    Result<void> result;
    const std::size_t count = chunks[i].embeddings.size();
    if (ran.ok()) {
      own.assign(hidden.begin() + static_cast<std::ptrdiff_t>(at),
                 hidden.begin() + static_cast<std::ptrdiff_t>(at + count));
      at += count;
    } else {
      result = kv_.backbone().forward(kv_.pool(), {&chunks[i], 1}, own);
    }
    if (!result.ok()) {
      finish(turn, result);
      continue;
    }
    turn.prompt.erase(turn.prompt.begin(),
                      turn.prompt.begin() + static_cast<std::ptrdiff_t>(count));
    advance(turn, std::move(own));
  }
  std::erase_if(turns_, [](const auto& turn) { return turn->activation == nullptr; });
  for (StepOutcome& outcome : done_) ended.push_back(std::move(outcome));
  done_.clear();
}

}  // namespace

Plugin language_model_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "language_model",
      .meaning = "answers about text and pictures, token by token, over a session's paged KV",
      .interfaces =
          {{.name = "embed",
            .inputs = {{"text", ValueType::text, "a piece of the request", false}},
            .outputs = {{"hidden", ValueType::tensor, "its rows for the backbone", false}},
            .frames = {},
            .yields_max = 1},
           {.name = "generate",
            .inputs = {{"hidden", ValueType::tensor, "rows of text", false},
                       {"features", ValueType::tensor, "a picture's feature tokens", false},
                       {"latents", ValueType::tensor, "the same picture's latents", false}},
            .outputs = {{"token", ValueType::text, "one word of the answer", false},
                        {"draw_prompt", ValueType::tensor, "where a drawing begins", false}},
            .frames = {{"token"}, {"draw_prompt"}},
            .yields_max = 0}},
      .session_state = true,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {"paged_kv"}};
  plugin.make = [](const RoleMaking& making) -> Result<RoleInstance> {
    Result<PagedKv*> kv = paged_kv_of(making);
    if (!kv.ok()) return kv.error();
    return RoleInstance(std::unique_ptr<SteppedRole>(std::make_unique<LanguageModel>(**kv)));
  };
  return plugin;
}

}  // namespace sluice
