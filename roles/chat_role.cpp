#include "roles/chat_role.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/nearest.h"
#include "engine/checkpoint/gguf.h"
#include "engine/family/memory_plan.h"
#include "roles/chat_sessions.h"

namespace sluice {

namespace {

constexpr std::int64_t answer_tokens_default = 256;

/// An answer that is being made.
struct Turn {
  Activation* activation = nullptr;
  std::uint64_t id = 0;
  std::vector<std::int32_t> prompt;
  std::size_t said = 0;  // bytes of the text that have been yielded
};

GenerationOptions options_of(const Payload& text) {
  const auto option = [&](const char* name, std::int64_t otherwise) {
    return text.attribute(name).value_or(otherwise);
  };
  GenerationOptions options;
  options.tokens_max = static_cast<std::size_t>(
      std::max<std::int64_t>(option("max_tokens", answer_tokens_default), 1));
  options.sampling.temperature = static_cast<float>(option("temperature_milli", 0)) / 1000.0F;
  options.sampling.top_k = static_cast<std::size_t>(option("top_k", 0));
  options.sampling.top_p = static_cast<float>(option("top_p_milli", 1000)) / 1000.0F;
  options.seed = static_cast<std::uint64_t>(option("seed", 0));
  return options;
}

class ChatRole final : public SteppedRole {
 public:
  ChatRole(ChatModel model, ChatSessions& sessions, Budget budget)
      : model_(std::move(model)),
        sessions_(sessions),
        generator_(model_.model().text(), sessions.pool(), &model_.tokenizer(), budget) {}

  void admit(Activation& activation) override { waiting_.push_back(&activation); }
  bool busy() const override { return !waiting_.empty() || !turns_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  void take(Activation& activation, std::vector<StepOutcome>& ended);
  Result<void> begin(Activation& activation, ChatSession& session, const Payload& text);
  void yield_progress(Turn& turn, const Generation& generation);
  void finish(Turn& turn, std::vector<StepOutcome>& ended);
  void drop_cancelled(std::vector<StepOutcome>& ended);

  ChatModel model_;
  ChatSessions& sessions_;
  Generator generator_;
  std::deque<Activation*> waiting_;
  std::vector<Turn> turns_;
  std::uint64_t next_id_ = 1;
};

/// A piece of a message, or the end of one.
void ChatRole::take(Activation& activation, std::vector<StepOutcome>& ended) {
  ChatSession& session = sessions_.session(activation.session());
  Result<void> outcome;
  if (session.failed_call == activation.call())
    return ended.push_back(
        {&activation, Error{ErrorCode::cancelled, "an earlier piece of this turn failed"}});
  // What another call began to say and did not end was not said.
  if (session.call != activation.call()) session.pending = {"user", "", {}};
  session.call = activation.call();
  for (const PayloadRef& image : activation.inputs("image")) {
    Result<PictureInput> seen = model_.encode_picture(image->tensor);
    if (seen.ok())
      session.pending.pictures.push_back(std::move(seen).value());
    else
      outcome = seen.error();
  }
  for (const PayloadRef& text : activation.inputs("text")) {
    session.pending.text += text->text;
    if (!outcome.ok() || text->attribute("generate").value_or(1) == 0) continue;
    outcome = begin(activation, session, *text);
    if (outcome.ok()) return;  // ends when the answer does
  }
  if (!outcome.ok()) {
    session.pending = {"user", "", {}};
    session.failed_call = activation.call();
  }
  ended.push_back({&activation, std::move(outcome)});
}

Result<void> ChatRole::begin(Activation& activation, ChatSession& session, const Payload& text) {
  session.messages.push_back(std::exchange(session.pending, {"user", "", {}}));
  Result<std::vector<std::int32_t>> prompt = model_.tokens(session.messages);
  Result<Generation> generation =
      prompt.ok() ? model_.begin_with(*prompt, session.messages, options_of(text))
                  : Result<Generation>(prompt.error());
  if (!generation.ok()) {
    session.messages.pop_back();
    return generation.error();
  }
  (void)model_.keep_prefix(sessions_.pool(), std::exchange(session.sequence, {}), session.tokens,
                           *prompt, *generation);
  generation->id = next_id_++;
  session.answering = true;
  turns_.push_back({&activation, generation->id, std::move(prompt).value(), 0});
  generator_.add(std::move(generation).value());
  return {};
}

void ChatRole::yield_progress(Turn& turn, const Generation& generation) {
  if (generation.text.size() <= turn.said) return;
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = generation.text.substr(turn.said);
  if (generation.finish == Generation::Finish::length)
    payload->attributes.emplace_back("cut_off", 1);
  turn.said = generation.text.size();
  turn.activation->yield("token", PayloadRef(payload));
}

void ChatRole::finish(Turn& turn, std::vector<StepOutcome>& ended) {
  Generation done = std::move(generator_.remove(turn.id)).value();
  Result<void> outcome;
  if (done.error.has_value()) outcome = *done.error;
  if (done.finish == Generation::Finish::none)
    outcome = Error{ErrorCode::cancelled, "the call was cancelled"};
  ChatSession* session = sessions_.find(turn.activation->session());
  if (session == nullptr || !session->answering) {  // it ended meanwhile
    sessions_.pool().truncate(done.sequence, 0);
  } else {
    session->answering = false;
    session->sequence = std::move(done.sequence);
    session->tokens = std::move(turn.prompt);
    session->tokens.insert(session->tokens.end(), done.tokens.begin(), done.tokens.end());
    if (outcome.ok()) {
      session->messages.push_back({"assistant", done.text, {}});
    } else {
      session->messages.pop_back();  // as if it had not been asked
      session->failed_call = turn.activation->call();
    }
  }
  ended.push_back({turn.activation, std::move(outcome)});
  turn.activation = nullptr;
}

void ChatRole::drop_cancelled(std::vector<StepOutcome>& ended) {
  for (Turn& turn : turns_)
    if (turn.activation->cancelled()) finish(turn, ended);
  std::erase_if(turns_, [](const Turn& turn) { return turn.activation == nullptr; });
}

void ChatRole::step(std::vector<StepOutcome>& ended) {
  const auto held = sessions_.lock();
  drop_cancelled(ended);
  // A session's pieces in order; behind an answer that is being made they wait.
  std::deque<Activation*> later;
  for (Activation* activation : std::exchange(waiting_, {})) {
    const auto same = [&](const Activation* other) {
      return other->session() == activation->session();
    };
    if (sessions_.session(activation->session()).answering || std::ranges::any_of(later, same))
      later.push_back(activation);
    else if (activation->cancelled())
      ended.push_back({activation, Error{ErrorCode::cancelled, "the call was cancelled"}});
    else
      take(*activation, ended);
  }
  waiting_ = std::move(later);
  if (turns_.empty()) return;
  std::vector<std::uint64_t> advanced;
  generator_.step(advanced);
  for (Turn& turn : turns_) {
    const Generation& generation = *generator_.find(turn.id);
    yield_progress(turn, generation);
    if (generation.finish != Generation::Finish::none) finish(turn, ended);
  }
  std::erase_if(turns_, [](const Turn& turn) { return turn.activation == nullptr; });
}

struct RoleOptions {
  kernels::WeightFormat format = kernels::WeightFormat::bf16;
  Budget budget;
};

Result<RoleOptions> read_options(const RoleSpec& role, const std::string& model) {
  RoleOptions made;
  // The blocks of a GGUF file are narrower than bf16 as they lie.
  if (is_gguf(model)) made.format = kernels::WeightFormat::exact;
  for (const OptionSpec& option : role.options) {
    const std::string& value = option.value.text;
    if (option.key.text == "precision") {
      if (value == "exact")
        made.format = kernels::WeightFormat::exact;
      else if (value == "int8")
        made.format = kernels::WeightFormat::int8;
      else if (value != "bf16")
        return invalid_argument("role '" + role.name.text + "': precision is '" + value +
                                "', it must be exact, bf16 or int8");
    } else if (option.key.text == "step_tokens") {
      const bool digits = !value.empty() && value.size() < 6 &&
                          std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
      if (!digits || std::stoul(value) == 0)
        return invalid_argument("role '" + role.name.text + "': step_tokens is '" + value +
                                "', it must be a number from 1 to 99999");
      made.budget.tokens = std::stoul(value);
    } else {
      return invalid_argument("role '" + role.name.text + "': unknown option '" + option.key.text +
                              "'; there are precision and step_tokens");
    }
  }
  return made;
}

/// Refuses what does not fit the machine, together with the pages that are there already.
Result<Model> load(const RoleMaking& making, const RoleOptions& options, ChatSessions& sessions) {
  Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  Result<SafetensorsFile> file = open_weights(making.model_directory);
  if (!file.ok()) return file.error();
  const std::size_t tokens = sessions.pool().pages() * sessions.pool().shape().page_tokens;
  const MemoryPlan plan = plan_memory(*file, *architecture, tokens, options.format);
  if (Result<void> fits = plan.check(); !fits.ok()) return fits.error();
  return Model::load(std::move(architecture).value(), std::move(file).value(), options.format);
}

Result<RoleInstance> make(const RoleMaking& making) {
  ChatSessions* sessions = nullptr;
  for (GlobalParam* param : making.global_params)
    if (auto* found = dynamic_cast<ChatSessions*>(param)) sessions = found;
  if (sessions == nullptr)
    return invalid_argument("role '" + making.role->name.text +
                            "' needs a chat_kv among its global_params");
  const Result<RoleOptions> options = read_options(*making.role, making.model_directory);
  if (!options.ok()) return options.error();
  Result<Model> model = load(making, *options, *sessions);
  if (!model.ok()) return model.error();
  Result<ChatModel> chat = ChatModel::open(making.model_directory, std::move(model).value());
  if (!chat.ok()) return chat.error();
  if (!chat->chat().ok()) return chat->chat().error();
  const KvShape mine = chat->model().text().kv_shape(1);
  const KvShape& theirs = sessions->pool().shape();
  if (mine.layers != theirs.layers || mine.row != theirs.row)
    return invalid_argument("role '" + making.role->name.text +
                            "': its chat_kv is made for another model");
  return RoleInstance(std::unique_ptr<SteppedRole>(
      std::make_unique<ChatRole>(std::move(chat).value(), *sessions, options->budget)));
}

}  // namespace

Plugin chat_model_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "chat_model",
      .meaning = "a checkpoint that answers texts and pictures, token by token",
      .interfaces = {{.name = "answer",
                      .inputs = {{"text", ValueType::text, "a piece of the message", false},
                                 {"image", ValueType::image, "a picture in it", false}},
                      .outputs = {{"token", ValueType::text, "a piece of the answer", false}},
                      .frames = {{"token"}},
                      .yields_max = 0}},
      .session_state = true,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {"chat_kv"},
      .options = {{"precision", "of the weights", {"exact", "bf16", "int8"}, 0, 0},
                  {"step_tokens", "most tokens of one step, over all sessions", {}, 1, 99999}}};
  plugin.make = make;
  return plugin;
}

}  // namespace sluice
