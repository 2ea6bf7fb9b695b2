#include "roles/token_policy.h"

#include <algorithm>
#include <memory>

#include "engine/policy/action_tokens.h"
#include "engine/tasks/encoding.h"
#include "roles/emissions.h"
#include "roles/policy_role.h"

namespace sluice {

namespace {

/// A cycle that was asked for.
struct Asked {
  Activation* activation = nullptr;
  bool looked_at = false;              // its picture and its words
  Result<void> outcome;                // of looking at them
  ChatMessage said;                    // the picture, with features or pixels, and the instruction
  std::vector<std::int32_t> tokens;    // instead of an instruction
  std::unique_ptr<Encoding> encoding;  // of the picture, under way
  std::unique_ptr<GenerationTask> answer;
  Nanoseconds began = 0;
  TaskId id = 0;  // of the encoding, then of the answer

  bool is_encoding() const { return encoding != nullptr && !encoding->done(); }
};

class TokenPolicy final : public SteppedRole {
 public:
  TokenPolicy(ChatEngine& engine, const ActionStatistics& robot, const EngineOptions& options)
      : engine_(engine), robot_(robot), options_(options) {}
  ~TokenPolicy() override {
    SharedEngine::Turn mine(engine_.shared);
    mine.was_used();
    for (const Asked& asked : asked_) mine.engine().remove(asked.id);
    asked_.clear();
  }
  TokenPolicy(const TokenPolicy&) = delete;
  TokenPolicy& operator=(const TokenPolicy&) = delete;

  void admit(Activation& activation) override {
    Asked& asked = asked_.emplace_back();
    asked.activation = &activation;
    asked.began = engine_clock();
  }
  bool busy() const override { return !asked_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  const Model& model() const { return engine_.model.model(); }
  std::size_t dims() const { return robot_.low.size(); }
  void look_at_one();
  Result<void> look_at(Asked& asked) const;
  Result<void> read_picture(Asked& asked) const;
  Result<void> read_words(Asked& asked) const;
  GenerationOptions options_of(const Asked& asked) const;
  Result<void> begin(Asked& asked, SharedEngine::Turn& mine);
  Result<void> answer(Asked& asked, SharedEngine::Turn& mine);
  Result<void> yield_actions(Asked& asked);
  void end(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
           std::vector<StepOutcome>& ended);
  void advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);

  ChatEngine& engine_;
  const ActionStatistics& robot_;
  const EngineOptions options_;
  std::vector<Asked> asked_;
  Emissions emissions_;
};

Result<void> TokenPolicy::read_picture(Asked& asked) const {
  const Payload* seen = nullptr;
  std::string_view camera;
  for (const std::string_view port : camera_ports) {
    const auto frames = asked.activation->inputs(port);
    if (frames.empty()) continue;
    if (seen != nullptr)
      return invalid_argument("there are pictures in " + std::string(camera) + " and " +
                              std::string(port) + "; this policy sees one camera");
    seen = frames.front().get();
    camera = port;
  }
  if (seen == nullptr)
    return invalid_argument("there is nothing to act on: no picture in " + camera_names());
  PictureInput picture;
  if (auto known = engine_.model.find_picture(picture_content(seen->tensor)); known.has_value()) {
    picture = *std::move(known);
  } else {
    Result<PictureInput> made = engine_.model.prepare(seen->tensor);
    if (!made.ok()) return invalid_argument(std::string(camera) + ": " + made.error().message);
    picture = std::move(made).value();
    // With the prompt, which waits for it, it has the time of one token.
    const GenerationOptions options = options_of(asked);
    Result<std::unique_ptr<Encoding>> encoding = Encoding::make(
        model(), std::move(picture.pixels), picture.grids,
        {options.priority, deadline_of_part(options.began, options.deadline, 1, dims() + 1)});
    if (!encoding.ok()) return encoding.error();
    asked.encoding = std::move(encoding).value();
    picture.pixels = {};
  }
  asked.said.pictures.push_back(std::move(picture));
  return {};
}

Result<void> TokenPolicy::read_words(Asked& asked) const {
  const auto given = [&](std::string_view field) { return asked.activation->inputs(field); };
  if (!given("tokens").empty()) {
    const Tensor& tensor = given("tokens").front()->tensor;
    if (tensor.dtype() != Dtype::i32 || tensor.empty())
      return invalid_argument("the tokens are " + tensor.describe() +
                              ", this policy reads i32 values, one at least");
    asked.tokens.assign(tensor.i32().begin(), tensor.i32().end());
    // Below zero there are tokens that stand for what is no word.
    const auto bad = std::ranges::find_if(asked.tokens, [](std::int32_t id) { return id < 0; });
    if (bad != asked.tokens.end())
      return invalid_argument(
          "token " + std::to_string(*bad) + " at " + std::to_string(bad - asked.tokens.begin()) +
          " is outside the vocabulary of " + std::to_string(model().text().shape().vocabulary));
    return {};
  }
  if (given("instruction").empty())
    return invalid_argument("there is nothing to act on: no instruction, no tokens");
  asked.said.text = given("instruction").front()->text;
  return check_instruction(asked.said.text);
}

/// Outside the turn: the works of others go on meanwhile.
Result<void> TokenPolicy::look_at(Asked& asked) const {
  for (const std::string_view field : {"state", "noise"})
    if (!asked.activation->inputs(field).empty())
      return invalid_argument("a policy of family " +
                              std::string(to_string(model().architecture().family)) + " reads no " +
                              std::string(field) + ": leave it out");
  asked.said.role = "user";
  if (Result<void> read = read_words(asked); !read.ok()) return read;
  return read_picture(asked);
}

void TokenPolicy::look_at_one() {
  for (Asked& asked : asked_) {
    if (asked.looked_at) continue;
    asked.looked_at = true;
    if (!asked.activation->cancelled()) asked.outcome = look_at(asked);
    return;
  }
}

GenerationOptions TokenPolicy::options_of(const Asked& asked) const {
  GenerationOptions options;
  options.tokens_max = dims();
  options.share_prefix = options_.share_prefixes;
  options.priority = options_.priority;
  options.began = asked.began;
  if (options_.deadline != 0) options.deadline = asked.began + options_.deadline;
  return options;
}

/// The encoding, and when it is done the answer.
Result<void> TokenPolicy::begin(Asked& asked, SharedEngine::Turn& mine) {
  if (asked.encoding == nullptr) return answer(asked, mine);
  if (asked.id == 0) {
    asked.id = mine.add(*asked.encoding);
    return {};
  }
  mine.engine().remove(std::exchange(asked.id, 0));
  if (asked.encoding->error().has_value()) return *asked.encoding->error();
  PictureInput& picture = asked.said.pictures.front();
  picture.features = asked.encoding->take_features();
  asked.encoding.reset();
  engine_.model.keep_picture(picture);
  return answer(asked, mine);
}

Result<void> TokenPolicy::answer(Asked& asked, SharedEngine::Turn& mine) {
  std::vector<std::int32_t> prompt = asked.tokens;
  if (prompt.empty()) {
    Result<std::vector<std::int32_t>> words = engine_.model.tokens({&asked.said, 1});
    if (!words.ok()) return words.error();
    prompt = std::move(words).value();
  } else {
    prompt.insert(prompt.begin() + 1, asked.said.pictures.front().feature_rows, patches_token);
  }
  Result<Generation> generation =
      engine_.model.begin_with(prompt, {&asked.said, 1}, options_of(asked));
  if (!generation.ok()) return generation.error();
  asked.answer = std::make_unique<GenerationTask>(std::move(generation).value(), nullptr);
  asked.id = mine.add(*asked.answer);
  return {};
}

Result<void> TokenPolicy::yield_actions(Asked& asked) {
  const Generation& done = asked.answer->generation();
  if (done.error.has_value()) return *done.error;
  if (done.tokens.size() != dims())
    return Error{ErrorCode::unavailable,
                 "the policy's answer ended after " + std::to_string(done.tokens.size()) + " of " +
                     std::to_string(dims()) + " values" +
                     (done.finish == Generation::Finish::end_token
                          ? std::string(", with the end token ") + std::to_string(done.end_token)
                          : std::string(": there are too few pages or positions"))};
  const Architecture& architecture = model().architecture();
  if (const std::size_t words = words_among(architecture, done.tokens); words != 0)
    asked.activation->warn(std::to_string(words) + " of " + std::to_string(dims()) +
                           " tokens of an action stand for no bin of it, and count as its last or "
                           "first one");
  emissions_.add(*asked.activation, "actions",
                 make_tensor(Tensor::of_f32({1, static_cast<std::int64_t>(dims())},
                                            actions_of(architecture, robot_, done.tokens))));
  return {};
}

void TokenPolicy::end(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
                      std::vector<StepOutcome>& ended) {
  mine.engine().remove(asked.id);
  if (outcome.ok()) outcome = yield_actions(asked);
  asked.answer.reset();
  asked.encoding.reset();
  ended.push_back({asked.activation, std::move(outcome)});
  asked.activation = nullptr;
}

void TokenPolicy::advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  for (Asked& asked : asked_) {
    if (asked.activation->cancelled()) {
      end(asked, Error{ErrorCode::cancelled, "the call was cancelled"}, mine, ended);
    } else if (asked.answer == nullptr) {
      if (!asked.looked_at || (asked.id != 0 && asked.is_encoding())) continue;
      if (asked.outcome.ok()) asked.outcome = begin(asked, mine);
      if (!asked.outcome.ok()) end(asked, asked.outcome, mine, ended);
    } else if (asked.answer->done()) {
      end(asked, {}, mine, ended);
    }
  }
  std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
}

void TokenPolicy::step(std::vector<StepOutcome>& ended) {
  look_at_one();
  {
    SharedEngine::Turn mine(engine_.shared);
    advance(mine, ended);
    const bool ran = mine.forward();
    advance(mine, ended);
    if (ran || !ended.empty()) mine.was_used();
  }
  emissions_.send();
}

}  // namespace

Result<RoleInstance> make_token_policy(const RoleMaking& making, ChatSessions& sessions,
                                       const std::vector<OptionDeclaration>& known) {
  const Result<EngineOptions> options =
      read_engine_options(*making.role, making.model_directory, known);
  if (!options.ok()) return options.error();
  const Result<ChatEngine*> engine = sessions.engine(
      making.model_directory, options->format_on(sessions.device()), options->planner);
  if (!engine.ok()) return engine.error();
  const Result<const ActionStatistics*> robot =
      statistics_named((*engine)->model.model().architecture(), options->statistics);
  if (!robot.ok())
    return invalid_argument("role '" + making.role->name.text + "': " + robot.error().message);
  return RoleInstance(
      std::unique_ptr<SteppedRole>(std::make_unique<TokenPolicy>(**engine, **robot, *options)));
}

}  // namespace sluice
