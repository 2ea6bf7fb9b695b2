#include "roles/denoiser.h"

#include <algorithm>
#include <memory>

#include "engine/tasks/drawing.h"
#include "roles/emissions.h"
#include "roles/engine_options.h"
#include "roles/paged_kv.h"

namespace sluice {

namespace {

/// A drawing that was asked for.
struct Asked {
  Activation* activation = nullptr;
  std::unique_ptr<Drawing> drawing;  // null: not begun
  TaskId id = 0;
};

class Denoiser final : public SteppedRole {
 public:
  Denoiser(PagedKv& kv, DrawingHost& host) : kv_(kv), host_(host) {}
  ~Denoiser() override {
    SharedEngine::Turn mine(host_.shared);
    mine.was_used();
    for (const Asked& asked : asked_) mine.engine().remove(asked.id);
    asked_.clear();
  }
  Denoiser(const Denoiser&) = delete;
  Denoiser& operator=(const Denoiser&) = delete;

  void admit(Activation& activation) override { asked_.push_back({&activation, nullptr, 0}); }
  bool busy() const override { return !asked_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  Result<void> begin(Asked& asked, SharedEngine::Turn& mine);
  Result<std::vector<float>> start(const Payload& prompt, FlowOptions& options) const;
  void finish(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
              std::vector<StepOutcome>& ended);
  void look(Asked& asked, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);

  const LatentFlow& flow() const { return host_.model.flow(); }

  PagedKv& kv_;
  DrawingHost& host_;
  std::vector<Asked> asked_;
  Emissions emissions_;
};

/// What the drawing starts from: noise, or a picture with some noise over it.
Result<std::vector<float>> Denoiser::start(const Payload& prompt, FlowOptions& options) const {
  std::vector<float> x = flow().noise(options.seed);
  if (prompt.tensor.empty()) return x;
  if (prompt.tensor.dtype() != Dtype::f32 ||
      prompt.tensor.count() != static_cast<std::int64_t>(x.size()))
    return invalid_argument("the latents to start from are " + prompt.tensor.describe() +
                            ", this model needs " + std::to_string(x.size()) + " f32 values");
  options.start = static_cast<double>(prompt.attribute("strength_milli").value_or(1000)) / 1000;
  const auto t = static_cast<float>(options.start);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (1 - t) * prompt.tensor.f32()[i] + t * x[i];
  return x;
}

Result<void> Denoiser::begin(Asked& asked, SharedEngine::Turn& mine) {
  const Payload& prompt = *asked.activation->input("prompt");
  Conversation& conversation = kv_.conversation(asked.activation->session());
  const LatentFlowShape& shape = flow().shape();
  const auto length = static_cast<std::size_t>(prompt.attribute("length").value_or(0));
  if (length == 0 || conversation.is_answering || conversation.sequence.tokens() != length)
    return Error{ErrorCode::stale, "the session has moved on since the drawing was asked for (" +
                                       std::to_string(conversation.sequence.tokens()) +
                                       " tokens, the prompt had " + std::to_string(length) + ")"};
  FlowOptions options;
  options.steps = static_cast<std::size_t>(std::max<std::int64_t>(
      prompt.attribute("steps").value_or(static_cast<std::int64_t>(shape.steps)), 0));
  options.guidance =
      static_cast<double>(prompt.attribute("guidance_milli")
                              .value_or(static_cast<std::int64_t>(shape.guidance * 1000))) /
      1000;
  options.seed = static_cast<std::uint64_t>(prompt.attribute("seed").value_or(0));
  Result<std::vector<float>> x = start(prompt, options);
  if (!x.ok()) return x.error();
  asked.drawing =
      std::make_unique<Drawing>(flow(), kv_.pool().fork(conversation.sequence),
                                host_.turns().wordless_drawing(), std::move(x).value(), options);
  if (!asked.drawing->done()) asked.id = mine.add(*asked.drawing);
  return {};
}

void Denoiser::finish(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
                      std::vector<StepOutcome>& ended) {
  if (asked.drawing != nullptr) mine.engine().remove(asked.id);
  asked.drawing.reset();
  ended.push_back({asked.activation, std::move(outcome)});
  asked.activation = nullptr;
}

void Denoiser::look(Asked& asked, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  if (asked.activation->cancelled())
    return finish(asked, Error{ErrorCode::cancelled, "the drawing was cancelled"}, mine, ended);
  if (asked.drawing == nullptr) {
    if (Result<void> begun = begin(asked, mine); !begun.ok()) finish(asked, begun, mine, ended);
    return;
  }
  Drawing& drawing = *asked.drawing;
  if (!drawing.done()) return;
  if (drawing.error().has_value()) return finish(asked, *drawing.error(), mine, ended);
  const LatentFlowShape& shape = flow().shape();
  emissions_.add(*asked.activation, "latents",
                 make_tensor(Tensor::of_f32({static_cast<std::int64_t>(shape.tokens),
                                             static_cast<std::int64_t>(shape.token_values)},
                                            drawing.take_latents())));
  finish(asked, {}, mine, ended);
}

void Denoiser::step(std::vector<StepOutcome>& ended) {
  const auto look_at_all = [&](SharedEngine::Turn& mine, bool begun_only) {
    for (Asked& asked : asked_)
      if (!begun_only || asked.drawing != nullptr) look(asked, mine, ended);
    std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
  };
  {
    SharedEngine::Turn mine(host_.shared);
    look_at_all(mine, false);
    const bool ran = mine.forward();
    look_at_all(mine, true);
    if (ran || !ended.empty()) mine.was_used();
  }
  emissions_.send();
}

constexpr std::string_view option_names[] = {"precision", "step_tokens"};

Result<RoleInstance> make(const RoleMaking& making) {
  const Result<EngineOptions> options =
      read_engine_options(*making.role, making.model_directory, engine_options(option_names));
  if (!options.ok()) return options.error();
  const Result<PagedKv*> kv = paged_kv_of(making);
  if (!kv.ok()) return kv.error();
  const Result<DrawingHost*> host = (*kv)->host(making.model_directory, *options);
  if (!host.ok()) return host.error();
  return RoleInstance(std::unique_ptr<SteppedRole>(std::make_unique<Denoiser>(**kv, **host)));
}

}  // namespace

Plugin denoiser_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "denoiser",
      .meaning = "draws latents by flow matching on the language model's layers and KV",
      .interfaces = {{.name = "generate",
                      .inputs = {{"prompt", ValueType::tensor, "where the drawing begins", false}},
                      .outputs = {{"latents", ValueType::tensor, "what was drawn", false}},
                      .frames = {},
                      .yields_max = 1}},
      .session_state = true,
      .needs_model = true,
      .any_ports = false,
      .global_param_kinds = {"paged_kv"},
      .options = engine_options(option_names)};
  plugin.make = make;
  return plugin;
}

}  // namespace sluice
