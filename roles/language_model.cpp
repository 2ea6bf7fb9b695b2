#include "roles/language_model.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "engine/tasks/generation.h"
#include "engine/text/unknown_words.h"
#include "graph/diagnostic.h"
#include "roles/chat_options.h"
#include "roles/chat_role.h"
#include "roles/check_model.h"
#include "roles/contents.h"
#include "roles/emissions.h"
#include "roles/engine_options.h"
#include "roles/paged_kv.h"
#include "roles/policy_role.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

/// One admitted activation of `generate`.
struct Turn {
  enum class Stage : std::uint8_t {
    waits,    // for its session
    reads,    // a piece of the turn, which is written and not answered
    answers,  // token by token
    marks,    // writes the token behind which a drawing stands
  };

  Activation* activation = nullptr;
  Stage stage = Stage::waits;
  std::uint64_t conversation = 0;  // its number, once the turn has changed it
  std::vector<std::pair<std::string, std::int64_t>> options;
  std::unique_ptr<GenerationTask> task;
  TaskId id = 0;
  std::size_t yielded = 0;  // tokens
  std::size_t behind = 0;   // rows that stood there before its own
  std::string tenant;       // once it runs: whose it is

  std::int64_t option(std::string_view name, std::int64_t otherwise) const {
    for (const auto& [key, value] : options)
      if (key == name) return value;
    return otherwise;
  }
};

/// Rows for the next forwards of a turn, what they are, and whether it is answered behind them.
struct Said {
  std::vector<float> rows;
  std::vector<std::int32_t> tokens;
  std::vector<PictureRows> given;
  bool answers = false;

  void add_marks(const Decoder& backbone, std::span<const std::int32_t> marks) {
    backbone.embed(marks, rows);
    tokens.insert(tokens.end(), marks.begin(), marks.end());
  }
};

class LanguageModel final : public SteppedRole {
 public:
  LanguageModel(PagedKv& kv, DrawingHost& host, bool share_prefixes, std::size_t tokens_max)
      : kv_(kv), host_(host), share_prefixes_(share_prefixes), tokens_max_(tokens_max) {}
  ~LanguageModel() override {
    SharedEngine::Turn mine(host_.shared);
    mine.was_used();
    for (const auto& turn : turns_)
      if (turn->task != nullptr) mine.engine().remove(turn->id);
    turns_.clear();
  }
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  void admit(Activation& activation) override {
    if (activation.interface() == "embed") {
      done_.push_back({&activation, embed(activation)});
    } else {
      turns_.push_back(std::make_unique<Turn>());
      turns_.back()->activation = &activation;
    }
  }
  bool busy() const override { return !turns_.empty() || !done_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  Result<void> embed(Activation& activation);
  void look_at_all(SharedEngine::Turn& mine);
  /// When no other turn of its session is under way, for it changes what the session has said.
  Result<void> begin(Turn& turn, SharedEngine::Turn& mine);
  /// Of a turn that stands in place of those behind the first `step`.
  Result<void> go_back(Conversation& conversation, const Activation& activation);
  Result<Said> read(Turn& turn, Conversation& conversation);
  Result<void> append_pictures(const Activation& activation, Conversation& conversation,
                               Said& said);
  Result<void> append_rows(const Tensor& tensor, Said& said) const;
  void start(Turn& turn, Conversation& conversation, Said said, GenerationOptions options,
             SharedEngine::Turn& mine);
  /// Behind the prompt that it has read: where the rows came from.
  void note_prompt(const Turn& turn, const Generation& done, Conversation& conversation);
  void yield_words(Turn& turn);
  void advance(Turn& turn, SharedEngine::Turn& mine);
  void advance_all(SharedEngine::Turn& mine);
  /// The answer asks for a drawing: its token is written before anybody draws.
  void mark(Turn& turn, Generation answered, SharedEngine::Turn& mine);
  Result<void> yield_drawing(Turn& turn, Conversation& conversation);
  void finish(Turn& turn, Result<void> result, SharedEngine::Turn& mine);
  /// To what stood before the conversation's last turn.
  void roll_back(Conversation& conversation);

  const Decoder& backbone() const { return host_.model.text(); }

  PagedKv& kv_;
  DrawingHost& host_;
  const bool share_prefixes_;
  const std::size_t tokens_max_;  // of an answer whose message does not say
  std::vector<std::unique_ptr<Turn>> turns_;
  std::vector<StepOutcome> done_;
  Emissions emissions_;
};

Result<void> LanguageModel::embed(Activation& activation) {
  const Payload* text = activation.input("text");
  if (std::string unknown = unknown_words_text(host_.tokenizer, text->text, kv_.directory());
      !unknown.empty())
    activation.warn(std::move(unknown));
  const std::vector<std::int32_t> ids = host_.tokenizer.encode(text->text);
  const std::size_t vocabulary = backbone().shape().vocabulary;
  for (const std::int32_t id : ids)
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary)
      return invalid_argument(kv_.directory() + ": the tokenizer makes token " +
                              std::to_string(id) + " of the text, and vocab_size is " +
                              std::to_string(vocabulary) + "; its file is another model's");
  std::vector<float> rows;
  backbone().embed(ids, rows);
  const auto count = static_cast<std::int64_t>(ids.size());
  Result<Tensor> hidden = activation.output_of_f32(
      "hidden", {count, static_cast<std::int64_t>(backbone().width())}, rows);
  if (!hidden.ok()) return hidden.error();
  activation.yield("hidden", make_tensor(std::move(hidden).value(), text->attributes));
  return {};
}

Result<void> LanguageModel::append_rows(const Tensor& tensor, Said& said) const {
  const auto width = static_cast<std::int64_t>(backbone().width());
  if (tensor.dtype() != Dtype::f32 || tensor.shape().empty() || tensor.shape().back() != width)
    return invalid_argument("the rows are " + tensor.describe() +
                            ", this model needs f32 rows of width " + std::to_string(width));
  said.rows.insert(said.rows.end(), tensor.f32().begin(), tensor.f32().end());
  append_numbers(tensor.f32(), backbone().width(), said.tokens, said.given);
  return {};
}

Result<void> LanguageModel::append_pictures(const Activation& activation,
                                            Conversation& conversation, Said& said) {
  const TurnTokens& marks = host_.turns();
  const std::int32_t open = marks.image;
  const std::int32_t close = marks.image_end;
  for (const PayloadRef& features : activation.inputs("features")) {
    said.add_marks(backbone(), {&open, 1});
    if (Result<void> added = append_rows(features->tensor, said); !added.ok()) return added;
    said.add_marks(backbone(), {&close, 1});
  }
  for (const PayloadRef& latents : activation.inputs("latents"))
    conversation.latents = latents->tensor;
  return {};
}

/// What the activation adds to the conversation, as rows.
Result<Said> LanguageModel::read(Turn& turn, Conversation& conversation) {
  const Activation& activation = *turn.activation;
  if (!activation.inputs("text").empty())
    return invalid_argument(
        "over a model that draws `generate` takes `hidden`: run `embed` before it");
  const TurnTokens& marks = host_.turns();
  Said said;
  std::vector<std::int32_t> opening = std::exchange(conversation.unwritten, {});
  if (conversation.written.sequence.tokens() == 0 && opening.empty()) opening.push_back(marks.bos);
  if (!conversation.in_turn) opening.push_back(marks.user);
  conversation.in_turn = true;
  said.add_marks(backbone(), opening);
  if (Result<void> added = append_pictures(activation, conversation, said); !added.ok())
    return added.error();
  for (const PayloadRef& hidden : activation.inputs("hidden")) {
    if (Result<void> added = append_rows(hidden->tensor, said); !added.ok()) return added.error();
    turn.options = hidden->attributes;
    said.answers = said.answers || hidden->attribute("generate").value_or(1) != 0;
  }
  if (said.answers) {
    said.add_marks(backbone(), {&marks.assistant, 1});
    conversation.in_turn = false;
  }
  return said;
}

Result<void> LanguageModel::go_back(Conversation& conversation, const Activation& activation) {
  std::int64_t step = -1;
  for (const PayloadRef& hidden : activation.inputs("hidden"))
    step = hidden->attribute("step").value_or(step);
  std::vector<Conversation::Before>& turns = conversation.turns;
  if (step < 0 || static_cast<std::size_t>(step) == turns.size()) return {};
  const auto kept = static_cast<std::size_t>(step);
  if (kept > turns.size()) return chat::no_such_turn(kept, turns.size());
  // All that takes memory first: the conversation is as it was where there is none.
  Conversation::Before behind = turns[kept];
  Conversation::Replaced replaced{{}, conversation.unwritten, conversation.latents, turns};
  const WrittenRows& written = conversation.written;
  WrittenRows those{kv_.pool().fork(written.sequence), written.history, written.origin};
  those.cut(kv_.pool(), behind.tokens);
  replaced.written = std::exchange(conversation.written, std::move(those));
  conversation.replaced = std::move(replaced);
  conversation.unwritten = std::move(behind.unwritten);
  conversation.latents = std::move(behind.latents);
  turns.resize(kept);
  return {};
}

Result<void> LanguageModel::begin(Turn& turn, SharedEngine::Turn& mine) {
  const Activation& activation = *turn.activation;
  Conversation& conversation = kv_.conversation(activation.session());
  const std::uint64_t call = activation.call();
  if (conversation.failed_call == call || conversation.refused_call == call)
    return Error{ErrorCode::cancelled, "an earlier piece of this turn failed"};
  if (Result<void> same = go_on_as(activation, conversation.tenant); !same.ok()) {
    conversation.refused_call = call;
    return same;
  }
  // What another call began and did not end (it was cancelled between two pieces) was not said.
  if (conversation.in_turn && conversation.call != activation.call()) roll_back(conversation);
  kv_.withdraw(conversation);  // a drawing that has not begun is of what stands no more
  if (!conversation.in_turn) {
    if (Result<void> back = go_back(conversation, activation); !back.ok()) {
      conversation.failed_call = activation.call();
      return back;
    }
  }
  turn.conversation = conversation.id;
  if (!conversation.in_turn) {
    conversation.before = {conversation.written.sequence.tokens(), conversation.unwritten,
                           conversation.latents};
    conversation.prompt = {};
  }
  conversation.call = activation.call();
  Result<Said> said = read(turn, conversation);
  if (!said.ok()) return said.error();
  if (said->rows.empty()) {  // an empty piece
    finish(turn, {}, mine);
    return {};
  }
  GenerationOptions options;
  options.tokens_max = 0;
  if (said->answers) {
    options.tokens_max = static_cast<std::size_t>(std::max<std::int64_t>(
        turn.option("max_tokens", static_cast<std::int64_t>(tokens_max_)), 1));
    options.sampling.temperature =
        static_cast<float>(turn.option("temperature_milli", 0)) / 1000.0F;
    options.sampling.top_k = static_cast<std::size_t>(turn.option("top_k", 0));
    options.sampling.top_p = static_cast<float>(turn.option("top_p_milli", 1000)) / 1000.0F;
    options.seed = static_cast<std::uint64_t>(turn.option("seed", 0));
    options.end_tokens = {host_.turns().eos, host_.turns().draw};
  }
  turn.stage = said->answers ? Turn::Stage::answers : Turn::Stage::reads;
  start(turn, conversation, std::move(said).value(), std::move(options), mine);
  return {};
}

void LanguageModel::start(Turn& turn, Conversation& conversation, Said said,
                          GenerationOptions options, SharedEngine::Turn& mine) {
  WrittenRows& written = conversation.written;
  Generation generation;
  generation.options = std::move(options);
  generation.options.share_prefix = share_prefixes_;
  generation.options.tenant = turn.tenant = conversation.tenant.value_or("");
  generation.rows = std::move(said.rows);
  generation.origin = {.model = host_.identity,
                       .picture_token = numbers_token,
                       .pictures = {},
                       .block = 0,
                       .tenant = turn.tenant};
  // What takes memory first: what is written goes with its tokens.
  std::vector<PictureRows>& given = written.origin.pictures;
  written.history.reserve(written.history.size() + said.tokens.size());
  given.reserve(given.size() + said.given.size());
  std::ranges::copy(said.tokens, std::back_inserter(written.history));
  std::ranges::move(said.given, std::back_inserter(given));
  generation.sequence = std::move(written.sequence);
  generation.history = std::move(written.history);
  generation.origin.pictures = std::move(given);
  turn.behind = generation.sequence.tokens();
  turn.task = std::make_unique<GenerationTask>(std::move(generation), nullptr);
  conversation.is_answering = true;
  turn.id = mine.add(*turn.task);
}

void LanguageModel::roll_back(Conversation& conversation) {
  // Fewer than before: it was ended meanwhile and begins anew; or its rows went with a turn that
  // could not begin, as memory ran out.
  if (conversation.written.sequence.tokens() < conversation.before.tokens) {
    conversation.before = {};
    conversation.prompt = {};
    conversation.unwritten.clear();
    conversation.turns.clear();
    conversation.replaced.reset();
    conversation.written.forget_unwritten();
    conversation.in_turn = false;
    return;
  }
  conversation.in_turn = false;
  if (auto replaced = std::exchange(conversation.replaced, std::nullopt)) {
    conversation.written = std::move(replaced->written);
    conversation.unwritten = std::move(replaced->unwritten);
    conversation.latents = std::move(replaced->latents);
    conversation.turns = std::move(replaced->turns);
    return;
  }
  conversation.written.cut(kv_.pool(), conversation.before.tokens);
  conversation.unwritten = conversation.before.unwritten;
  conversation.latents = conversation.before.latents;
}

void LanguageModel::finish(Turn& turn, Result<void> result, SharedEngine::Turn& mine) {
  if (std::string trouble = kv_.take_folder_trouble(); !trouble.empty())
    turn.activation->warn(std::move(trouble));
  const std::string_view session = turn.activation->session();
  bool begun = turn.conversation != 0;
  if (turn.task != nullptr) {
    mine.engine().remove(turn.id);
    begun = kv_.give_back(session, turn.conversation, turn.task->release());
  }
  if (!result.ok() && begun) {
    Conversation& conversation = kv_.conversation(session);
    roll_back(conversation);
    conversation.failed_call = turn.activation->call();
  }
  done_.push_back({turn.activation, std::move(result)});
  turn.activation = nullptr;
}

void LanguageModel::yield_words(Turn& turn) {
  const Generation& generation = turn.task->generation();
  for (; turn.yielded < generation.tokens.size(); ++turn.yielded) {
    auto* text = new Payload;
    text->type = ValueType::text;
    text->text = (turn.yielded > 0 ? " " : "") +
                 std::string(host_.tokenizer.word(generation.tokens[turn.yielded]));
    if (generation.finish == Generation::Finish::length &&
        turn.yielded + 1 == generation.tokens.size())
      text->attributes.emplace_back("cut_off", static_cast<std::int64_t>(turn.task->cut_off()));
    emissions_.add(*turn.activation, "token", PayloadRef(text));
  }
}

void LanguageModel::mark(Turn& turn, Generation answered, SharedEngine::Turn& mine) {
  Generation generation;
  const std::int32_t draw = host_.turns().draw;
  backbone().embed({&draw, 1}, generation.rows);
  generation.options.tokens_max = 0;
  generation.options.share_prefix = share_prefixes_;
  generation.options.tenant = turn.tenant;
  generation.sequence = std::move(answered.sequence);
  generation.history = std::move(answered.history);
  generation.history.push_back(draw);
  generation.origin = std::move(answered.origin);
  turn.stage = Turn::Stage::marks;
  turn.task = std::make_unique<GenerationTask>(std::move(generation), nullptr);
  turn.id = mine.add(*turn.task);
}

void LanguageModel::note_prompt(const Turn& turn, const Generation& done,
                                Conversation& conversation) {
  if (turn.stage == Turn::Stage::marks) return;
  const std::size_t rows = done.history.size() - done.tokens.size();
  const std::size_t found = done.tokens_kept - turn.behind;
  conversation.prompt.computed += rows - done.tokens_kept;
  conversation.prompt.brought += std::min(done.tokens_read_back, found);
  conversation.prompt.of_folder += std::min(done.tokens_of_folder, found);
  if (turn.stage == Turn::Stage::answers) kv_.count_prompt(conversation, rows);
}

Result<void> LanguageModel::yield_drawing(Turn& turn, Conversation& conversation) {
  const Result<std::uint64_t> offered = kv_.offer(conversation);
  if (!offered.ok()) return offered.error();
  std::vector<std::pair<std::string, std::int64_t>> attributes = turn.options;
  if (*offered != 0) attributes.emplace_back("offer", static_cast<std::int64_t>(*offered));
  attributes.emplace_back("length",
                          static_cast<std::int64_t>(conversation.written.sequence.tokens()));
  const bool start_from_picture =
      turn.option("strength_milli", 1000) < 1000 && !conversation.latents.empty();
  emissions_.add(
      *turn.activation, "draw_prompt",
      make_tensor(start_from_picture ? conversation.latents : Tensor(), std::move(attributes)));
  return {};
}

/// After a forward: what is new goes out, and the turn to its next stage.
void LanguageModel::advance(Turn& turn, SharedEngine::Turn& mine) {
  const Generation& generation = turn.task->generation();
  if (turn.stage == Turn::Stage::answers) yield_words(turn);
  if (generation.finish == Generation::Finish::none) return;
  mine.engine().remove(turn.id);
  if (generation.error.has_value()) return finish(turn, *generation.error, mine);
  if (kv_.is_of(turn.activation->session(), turn.conversation))
    note_prompt(turn, generation, kv_.conversation(turn.activation->session()));
  const bool draws = generation.finish == Generation::Finish::end_token &&
                     generation.end_token == host_.turns().draw;
  if (draws) return mark(turn, turn.task->release(), mine);
  const std::vector<std::int32_t> tokens = generation.tokens;
  const bool cut_off =
      turn.stage == Turn::Stage::answers && generation.finish == Generation::Finish::length;
  const Turn::Stage stage = turn.stage;
  const bool lives =
      kv_.give_back(turn.activation->session(), turn.conversation, turn.task->release());
  turn.task.reset();
  if (lives) {
    Conversation& conversation = kv_.conversation(turn.activation->session());
    // The answer's last word was not written, nor was its end.
    if (stage != Turn::Stage::reads) conversation.unwritten = {host_.turns().eos};
    if (cut_off) conversation.unwritten.insert(conversation.unwritten.begin(), tokens.back());
    if (stage == Turn::Stage::marks)
      if (Result<void> asked = yield_drawing(turn, conversation); !asked.ok())
        return finish(turn, asked, mine);
    if (stage != Turn::Stage::reads) {
      conversation.turns.push_back(conversation.before);
      (void)conversation.turns.back().latents.bytes();  // of its own: those that came may be lent
      conversation.replaced.reset();
    }
  }
  finish(turn, {}, mine);
}

/// Begins what may begin, and takes what is cancelled out.
void LanguageModel::look_at_all(SharedEngine::Turn& mine) {
  std::vector<std::string_view> before;  // sessions of turns that wait: theirs go in order
  for (const auto& turn : turns_) {
    if (turn->activation == nullptr) continue;  // ended in a step that threw behind it
    Activation& activation = *turn->activation;
    if (activation.cancelled()) {
      finish(*turn, Error{ErrorCode::cancelled, "the call was cancelled"}, mine);
      continue;
    }
    if (turn->stage != Turn::Stage::waits) continue;
    const bool waits = kv_.conversation(activation.session()).is_answering ||
                       std::ranges::find(before, activation.session()) != before.end();
    if (waits)
      before.push_back(activation.session());
    else if (Result<void> begun = begin(*turn, mine); !begun.ok())
      finish(*turn, begun, mine);
  }
  std::erase_if(turns_, [](const auto& turn) { return turn->activation == nullptr; });
}

/// What forwards have brought, whoever ran them.
void LanguageModel::advance_all(SharedEngine::Turn& mine) {
  for (const auto& turn : turns_)
    if (turn->activation != nullptr && turn->task != nullptr) advance(*turn, mine);
  std::erase_if(turns_, [](const auto& turn) { return turn->activation == nullptr; });
}

void LanguageModel::step(std::vector<StepOutcome>& ended) {
  {
    SharedEngine::Turn mine(host_.shared);
    advance_all(mine);
    look_at_all(mine);
    const bool ran = mine.forward();
    advance_all(mine);
    if (ran || !done_.empty()) mine.was_used();
  }
  emissions_.send();
  for (StepOutcome& outcome : done_) ended.push_back(std::move(outcome));
  done_.clear();
}

constexpr std::string_view option_names[] = {"max_tokens", "precision", "share_prefixes",
                                             "step_tokens", "prompt"};

Result<RoleInstance> make(const RoleMaking& making) {
  const std::vector<OptionDeclaration> options = engine_options(option_names);
  if (PolicyKv* policy = policy_kv_of(making))
    return make_policy_role(making, *policy, PolicyPart::trunk, options);
  const Result<ModelKind> kind = kind_of_model(making.model_directory);
  if (!kind.ok()) return kind.error();
  if (*kind != ModelKind::drawing) return make_chat_role(making, options);
  const Result<EngineOptions> said =
      read_engine_options(*making.role, making.model_directory, options);
  if (!said.ok()) return said.error();
  const Result<PagedKv*> kv = paged_kv_of(making);
  if (!kv.ok()) return kv.error();
  const Result<DrawingHost*> host = (*kv)->host(making.model_directory, *said);
  if (!host.ok()) return host.error();
  return RoleInstance(std::unique_ptr<SteppedRole>(
      std::make_unique<LanguageModel>(**kv, **host, said->share_prefixes, said->tokens_max)));
}

const Port features{.name = "features",
                    .type = ValueType::tensor,
                    .meaning = "a picture's feature tokens",
                    .dtype = Dtype::f32,
                    .shape = {any_size, any_size},
                    .content = contents::picture_rows};
const Port hidden{.name = "hidden",
                  .type = ValueType::tensor,
                  .meaning = "rows of text",
                  .content = contents::text_rows};
const Port token{"token", ValueType::text, "a piece of the answer", false};
const Port prefix{.name = "prefix",
                  .type = ValueType::number,
                  .meaning = "where what was read is kept",
                  .frames = PortFrames::one,
                  .content = contents::prefix};

InterfaceDeclaration generate() {
  return {.name = "generate",
          .inputs = {{"text", ValueType::text, "a piece of the message", false},
                     hidden,
                     features,
                     {.name = "latents",
                      .type = ValueType::tensor,
                      .meaning = "the same picture's latents",
                      .content = contents::latents}},
          .outputs = {token,
                      {.name = "draw_prompt",
                       .type = ValueType::tensor,
                       .meaning = "where a drawing begins",
                       .content = contents::drawing_start}},
          .frames = {{"token"}, {"draw_prompt"}},
          .yields_max = 0};
}

InterfaceDeclaration prefill() {
  return {.name = "prefill",
          .inputs = {{"text", ValueType::text, "a piece of the message", false},
                     features,
                     {.name = "instruction",
                      .type = ValueType::text,
                      .meaning = "what a robot is to do",
                      .frames = PortFrames::at_most_one},
                     {"tokens",
                      ValueType::tensor,
                      "the same as tokens",
                      false,
                      0,
                      Dtype::i32,
                      {any_size},
                      PortFrames::at_most_one},
                     {"state",
                      ValueType::tensor,
                      "a robot's state, scaled",
                      false,
                      0,
                      Dtype::f32,
                      {any_size},
                      PortFrames::at_most_one}},
          .outputs = {prefix},
          .frames = {},
          .yields_max = 1};
}

}  // namespace

Plugin language_model_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "language_model",
      .meaning = "answers about text and pictures, token by token, over a session's paged KV",
      .interfaces = {{.name = "embed",
                      .inputs = {{.name = "text",
                                  .type = ValueType::text,
                                  .meaning = "a piece of the request",
                                  .frames = PortFrames::one}},
                      .outputs = {{.name = "hidden",
                                   .type = ValueType::tensor,
                                   .meaning = "its rows for the backbone",
                                   .content = contents::text_rows}},
                      .frames = {},
                      .yields_max = 1},
                     generate(),
                     prefill(),
                     {.name = "decode",
                      .inputs = {prefix},
                      .outputs = {token},
                      .frames = {},
                      .yields_max = 0,
                      .keeps_nothing = true}},
      .session_state = true,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {"paged_kv"},
      .options = engine_options(option_names)};
  plugin.make = make;
  return plugin;
}

}  // namespace sluice
