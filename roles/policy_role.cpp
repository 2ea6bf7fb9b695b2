#include "roles/policy_role.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "base/random.h"
#include "engine/policy/policy_prompt.h"
#include "engine/tasks/control_cycle.h"
#include "engine/tasks/encoding.h"
#include "roles/chat_options.h"
#include "roles/emissions.h"
#include "roles/policy_words.h"

namespace sluice {

namespace {

const Payload* given(const Activation& activation, std::string_view field) {
  const auto values = activation.inputs(field);
  return values.empty() ? nullptr : values.front().get();
}

std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

/// A cycle that was asked for.
struct Asked {
  Activation* activation = nullptr;
  bool looked_at = false;  // its pictures, words and state
  Result<void> outcome;    // of looking at them
  std::vector<std::int32_t> words;
  std::vector<float> features;         // of pictures, or none
  std::unique_ptr<Encoding> encoding;  // of pictures, under way
  std::vector<float> x, state;         // noise; what the robot says of itself, filled up with zeros
  std::size_t state_given = 0;         // of `state`: what it did say
  Nanoseconds began = 0;
  std::unique_ptr<ControlCycle> cycle;
  TaskId id = 0;  // of the encoding, then of the cycle

  bool is_encoding() const { return encoding != nullptr && !encoding->done(); }
};

class PolicyRole final : public SteppedRole {
 public:
  PolicyRole(PolicyKv& kv, PolicyHost& host, PolicyPart part, const EngineOptions& options)
      : kv_(kv), host_(host), part_(part), options_(options), words_(kv, host) {}
  ~PolicyRole() override {
    SharedEngine::Turn mine(host_.shared);
    mine.was_used();
    for (const Asked& asked : asked_) mine.engine().remove(asked.id);
    asked_.clear();
    words_.leave(mine);
  }
  PolicyRole(const PolicyRole&) = delete;
  PolicyRole& operator=(const PolicyRole&) = delete;

  void admit(Activation& activation) override {
    if (activation.interface() == "decode") return words_.admit(activation);
    Asked& asked = asked_.emplace_back();
    asked.activation = &activation;
    asked.began = engine_clock();
  }
  bool busy() const override { return !asked_.empty() || words_.busy(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  bool is_trunk() const { return part_ == PolicyPart::trunk; }
  bool is_expert() const { return part_ == PolicyPart::expert; }
  const ActionShape& shape() const { return host_.policy.shape(); }
  void look_at_one();
  Result<void> look_at(Asked& asked) const;
  Result<void> read_state(Asked& asked) const;
  Result<void> check_state(const Asked& asked) const;
  Result<void> read_noise(Asked& asked) const;
  Result<std::vector<std::int32_t>> read_words(const Asked& asked) const;
  Result<void> read_features(Asked& asked) const;
  ControlOptions control_of(const Asked& asked) const;
  Result<void> begin(Asked& asked, SharedEngine::Turn& mine);
  Result<KvSequence> prefix_of(const Asked& asked);
  void end(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
           std::vector<StepOutcome>& ended);
  GenerationOptions options_of_words(const Asked& asked) const;
  Result<void> yield_result(Asked& asked);
  void advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);

  PolicyKv& kv_;
  PolicyHost& host_;
  const PolicyPart part_;
  const EngineOptions options_;
  std::vector<Asked> asked_;
  PolicyWords words_;  // of a trunk
  Emissions emissions_;
};

/// A robot must never be moved by what is no number.
Result<void> check_finite(const char* what, std::span<const float> values) {
  const auto bad = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (bad == values.end()) return {};
  return invalid_argument("value " + std::to_string(bad - values.begin()) + " of the " + what +
                          " is " + std::to_string(*bad) + ", not a number that can be used");
}

Result<void> PolicyRole::read_state(Asked& asked) const {
  const Payload* state = given(*asked.activation, "state");
  if (state == nullptr) return {};
  const Tensor& tensor = state->tensor;
  if (tensor.dtype() != Dtype::f32 || tensor.empty() || tensor.count() > wide(shape().state_dims))
    return invalid_argument("the state is " + tensor.describe() + ", this policy reads 1 to " +
                            std::to_string(shape().state_dims) + " f32 values");
  if (Result<void> numbers = check_finite("state", tensor.f32()); !numbers.ok()) return numbers;
  asked.state.assign(tensor.f32().begin(), tensor.f32().end());
  asked.state_given = asked.state.size();
  asked.state.resize(shape().state_dims);  // what a robot does not have is zero
  return {};
}

Result<void> PolicyRole::read_noise(Asked& asked) const {
  const std::size_t values = shape().horizon * shape().dims;
  const Payload* noise = given(*asked.activation, "noise");
  if (noise == nullptr) {
    SplitMix64 random(options_.seed);
    asked.x.resize(values);
    for (float& v : asked.x) v = static_cast<float>(random.normal());
    return {};
  }
  const Tensor& tensor = noise->tensor;
  if (tensor.dtype() != Dtype::f32 || tensor.count() != wide(values))
    return invalid_argument("the noise is " + tensor.describe() + ", this policy needs f32[" +
                            std::to_string(shape().horizon) + ", " + std::to_string(shape().dims) +
                            "]");
  if (Result<void> numbers = check_finite("noise", tensor.f32()); !numbers.ok()) return numbers;
  asked.x.assign(tensor.f32().begin(), tensor.f32().end());
  return {};
}

Result<std::vector<std::int32_t>> PolicyRole::read_words(const Asked& asked) const {
  const Family family = host_.model.architecture().family;
  if (const Payload* tokens = given(*asked.activation, "tokens")) {
    if (tokens->tensor.dtype() != Dtype::i32)
      return invalid_argument("the tokens are " + tokens->tensor.describe() + ", not i32");
    if (family == Family::pi05 && !asked.state.empty())
      return invalid_argument(
          "a pi05 policy reads its state as words: give an `instruction` with the `state`, or "
          "`tokens` that hold both");
    return std::vector<std::int32_t>(tokens->tensor.i32().begin(), tokens->tensor.i32().end());
  }
  const Payload* text = given(*asked.activation, "instruction");
  if (text == nullptr) return std::vector<std::int32_t>();
  if (Result<void> words = check_instruction(text->text); !words.ok()) return words.error();
  if (!host_.tokenizer.ok())
    return invalid_argument("an instruction needs a tokenizer: " + host_.tokenizer.error().message +
                            "; or give `tokens`");
  if (options_.asks_subtask) {
    if (asked.state_given != 0)
      return invalid_argument(
          "the prompt of a sub-task holds no state: leave it out, or `prompt: "
          "subtask`");
    return host_.tokenizer->encode(subtask_prompt(text->text), true);
  }
  // Words of what the robot has, without what fills up the row: so openpi writes them.
  const auto told = std::span(asked.state).first(asked.state_given);
  return host_.tokenizer->encode(policy_prompt(family, text->text, told), true);
}

/// Those that are given, or an encoding of what the cameras see.
Result<void> PolicyRole::read_features(Asked& asked) const {
  if (is_trunk()) {
    const Payload* features = given(*asked.activation, "features");
    if (features == nullptr) return {};
    const Tensor& tensor = features->tensor;
    const std::size_t width = host_.model.text().width();
    if (tensor.dtype() != Dtype::f32 || tensor.shape().size() != 2 || tensor.dim(1) != wide(width))
      return invalid_argument("the features are " + tensor.describe() +
                              ", this policy reads f32[rows, " + std::to_string(width) + "]");
    asked.features.assign(tensor.f32().begin(), tensor.f32().end());
    return {};
  }
  Result<std::vector<float>> pixels =
      read_cameras(*asked.activation, host_.pictures, host_.model.architecture());
  if (!pixels.ok()) return pixels.error();
  if (pixels->empty()) return {};
  // With the prefix, which waits for it, it has the time of one step.
  const ControlOptions control = control_of(asked);
  Encoding::Options options;
  options.priority = control.priority;
  options.deadline =
      deadline_of_part(control.began, control.deadline, 1, control.schedule.steps + 1);
  Result<std::unique_ptr<Encoding>> encoding =
      Encoding::make(host_.model, std::move(pixels).value(), {}, options);
  if (!encoding.ok()) return encoding.error();
  asked.encoding = std::move(encoding).value();
  return {};
}

/// pi0 reads its state beside the actions, the others in their prefix.
Result<void> PolicyRole::check_state(const Asked& asked) const {
  const Family family = host_.model.architecture().family;
  if (asked.state.empty() || (family == Family::pi0 ? !is_trunk() : !is_expert())) return {};
  return invalid_argument(
      "a policy of family " + std::string(to_string(family)) + " reads its state " +
      (is_expert() ? "in its prefix: give it to `prefill`" : "with its actions: give it to `act`"));
}

/// Outside the turn: the works of others go on meanwhile.
Result<void> PolicyRole::look_at(Asked& asked) const {
  if (Result<void> read = read_state(asked); !read.ok()) return read;
  if (Result<void> fits = check_state(asked); !fits.ok()) return fits;
  if (!is_trunk())
    if (Result<void> read = read_noise(asked); !read.ok()) return read;
  if (is_expert()) return {};
  if (is_trunk() && given(*asked.activation, "text") != nullptr)
    return invalid_argument(
        "what a robot is told is its `instruction`, or `tokens`; `text` is for "
        "models that answer");
  Result<std::vector<std::int32_t>> words = read_words(asked);
  if (!words.ok()) return words.error();
  asked.words = std::move(words).value();
  if (Result<void> read = read_features(asked); !read.ok()) return read;
  if (asked.features.empty() && asked.encoding == nullptr && asked.words.empty())
    return invalid_argument("there is nothing to act on: no " +
                            (is_trunk() ? "features" : "picture in " + camera_names()) +
                            ", no instruction");
  return {};
}

void PolicyRole::look_at_one() {
  for (Asked& asked : asked_) {
    if (asked.looked_at) continue;
    asked.looked_at = true;
    if (!asked.activation->cancelled()) asked.outcome = look_at(asked);
    return;
  }
}

/// A sequence of its own: what the session's prefix holds, or nothing.
Result<KvSequence> PolicyRole::prefix_of(const Asked& asked) {
  if (!is_expert()) return KvSequence();
  Result<PolicyPrefix> found =
      kv_.prefix_of(asked.activation->session(), given(*asked.activation, "prefix"));
  if (!found.ok()) return found.error();
  return std::move(found->sequence);
}

ControlOptions PolicyRole::control_of(const Asked& asked) const {
  ControlOptions options;
  options.schedule.steps = is_trunk() ? 0 : options_.steps != 0 ? options_.steps : shape().steps;
  options.priority = options_.priority;
  options.began = asked.began;
  if (options_.deadline != 0) options.deadline = options.began + options_.deadline;
  return options;
}

/// The encoding, and when it is done the cycle.
Result<void> PolicyRole::begin(Asked& asked, SharedEngine::Turn& mine) {
  if (asked.encoding != nullptr && asked.id == 0) {
    asked.id = mine.add(*asked.encoding);
    return {};
  }
  if (asked.encoding != nullptr) {
    mine.engine().remove(asked.id);
    if (asked.encoding->error().has_value()) return *asked.encoding->error();
    asked.features = asked.encoding->take_features();
    asked.encoding.reset();
  }
  Result<KvSequence> prefix = prefix_of(asked);
  if (!prefix.ok()) return prefix.error();
  const std::size_t pictures = asked.features.size() / host_.model.text().width();
  std::vector<float> seen;
  if (!is_expert()) {
    Result<std::vector<float>> rows =
        host_.policy.embed_seen(std::move(asked.features), asked.words, asked.state);
    if (!rows.ok()) return rows.error();
    seen = std::move(rows).value();
  }
  auto cycle =
      ControlCycle::make(host_.policy, std::move(prefix).value(), std::move(seen), pictures,
                         std::move(asked.x), std::move(asked.state), control_of(asked));
  if (!cycle.ok()) return cycle.error();
  asked.cycle = std::move(cycle).value();
  asked.id = mine.add(*asked.cycle);
  return {};
}

/// As the message says that tells the robot what to do.
GenerationOptions PolicyRole::options_of_words(const Asked& asked) const {
  for (const char* field : {"instruction", "tokens"})
    if (const Payload* said = given(*asked.activation, field))
      return chat::options_of(*said, options_.tokens_max);
  return chat::options_of(Payload(), options_.tokens_max);
}

Result<void> PolicyRole::yield_result(Asked& asked) {
  if (!is_trunk()) {
    std::vector<float> actions = asked.cycle->take_actions();
    if (Result<void> numbers = check_finite("actions", actions); !numbers.ok()) return numbers;
    emissions_.add(*asked.activation, "actions",
                   make_tensor(Tensor::of_f32({wide(shape().horizon), wide(shape().dims)},
                                              std::move(actions))));
    return {};
  }
  PolicyPrefix prefix{asked.cycle->release_prefix(), asked.cycle->take_last_row(),
                      options_of_words(asked)};
  Result<PayloadRef> frame = kv_.keep(asked.activation->session(), std::move(prefix));
  if (!frame.ok()) return frame.error();
  emissions_.add(*asked.activation, "prefix", std::move(frame).value());
  return {};
}

void PolicyRole::end(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
                     std::vector<StepOutcome>& ended) {
  mine.engine().remove(asked.id);
  if (outcome.ok()) outcome = yield_result(asked);
  asked.cycle.reset();
  asked.encoding.reset();
  ended.push_back({asked.activation, std::move(outcome)});
  asked.activation = nullptr;
}

void PolicyRole::advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  for (Asked& asked : asked_) {
    if (asked.activation->cancelled()) {
      end(asked, Error{ErrorCode::cancelled, "the call was cancelled"}, mine, ended);
    } else if (asked.cycle == nullptr) {
      if (!asked.looked_at || (asked.id != 0 && asked.is_encoding())) continue;
      if (asked.outcome.ok()) asked.outcome = begin(asked, mine);
      if (!asked.outcome.ok()) end(asked, asked.outcome, mine, ended);
    } else if (asked.cycle->done()) {
      const std::optional<Error> error = asked.cycle->error();
      end(asked, error.has_value() ? Result<void>(*error) : Result<void>(), mine, ended);
    }
  }
  std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
  words_.advance(mine, emissions_, ended);
}

void PolicyRole::step(std::vector<StepOutcome>& ended) {
  look_at_one();
  {
    SharedEngine::Turn mine(host_.shared);
    advance(mine, ended);
    const bool ran = mine.forward();
    advance(mine, ended);
    if (ran || !ended.empty()) mine.was_used();
  }
  emissions_.send();
}

}  // namespace

Result<void> check_instruction(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) return {};
  return invalid_argument("the instruction is empty: say what the robot is to do");
}

std::string camera_names() {
  std::string names;
  for (const std::string_view port : camera_ports) {
    if (!names.empty()) names += port == std::end(camera_ports)[-1] ? " or " : ", ";
    names += port;
  }
  return names;
}

Result<std::vector<float>> read_cameras(const Activation& activation, const PictureSteps& steps,
                                        const Architecture& architecture) {
  std::vector<float> pixels;
  for (const std::string_view port : camera_ports) {
    const Payload* image = given(activation, port);
    if (image == nullptr) continue;
    const Result<PictureInput> made = prepare_picture(steps, architecture, image->tensor);
    if (!made.ok()) return invalid_argument(std::string(port) + ": " + made.error().message);
    pixels.insert(pixels.end(), made->pixels.begin(), made->pixels.end());
  }
  return pixels;
}

PolicyKv* policy_kv_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* found = dynamic_cast<PolicyKv*>(param)) return found;
  return nullptr;
}

Result<RoleInstance> make_policy_role(const RoleMaking& making, PolicyKv& kv, PolicyPart part,
                                      const std::vector<OptionDeclaration>& known) {
  const Result<EngineOptions> options =
      read_engine_options(*making.role, making.model_directory, known);
  if (!options.ok()) return options.error();
  const Result<PolicyHost*> host =
      kv.host(making.model_directory, options->format, options->planner);
  if (!host.ok()) return host.error();
  return RoleInstance(
      std::unique_ptr<SteppedRole>(std::make_unique<PolicyRole>(kv, **host, part, *options)));
}

}  // namespace sluice
