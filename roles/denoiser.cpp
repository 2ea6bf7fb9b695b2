#include "roles/denoiser.h"

#include <algorithm>
#include <memory>

#include "engine/tasks/flow_steps.h"
#include "roles/contents.h"
#include "roles/drawing_role.h"
#include "roles/engine_options.h"
#include "roles/paged_kv.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

class Denoiser final : public Painter {
 public:
  Denoiser(PagedKv& kv, DrawingHost& host) : kv_(kv), host_(host) {}

  SharedEngine& engine() override { return host_.shared; }
  Result<std::unique_ptr<Drawing>> begin(const Activation& activation,
                                         const DrawingOptions& options) override;
  std::vector<std::int64_t> shape() const override {
    return {static_cast<std::int64_t>(flow().shape().tokens),
            static_cast<std::int64_t>(flow().shape().token_values)};
  }

 private:
  Result<std::vector<float>> start(const Payload& prompt, FlowOptions& options) const;
  const LatentFlow& flow() const { return host_.model.flow(); }

  PagedKv& kv_;
  DrawingHost& host_;
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

Result<std::unique_ptr<Drawing>> Denoiser::begin(const Activation& activation,
                                                 const DrawingOptions& asked) {
  const Payload& prompt = *activation.input("prompt");
  const LatentFlowShape& shape = flow().shape();
  Result<KvSequence> said = kv_.prompt_of(
      activation.session(), static_cast<std::size_t>(prompt.attribute("length").value_or(0)),
      static_cast<std::uint64_t>(prompt.attribute("offer").value_or(0)));
  if (!said.ok()) return said.error();
  Result<std::string> tenant = tenant_of(prompt);
  if (!tenant.ok()) return tenant.error();
  DrawingOptions drawn = asked;
  drawn.tenant = std::move(tenant).value();
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
  return std::make_unique<Drawing>(
      std::make_unique<FlowSteps>(flow(), std::move(x).value(), options), std::move(said).value(),
      host_.turns().wordless_drawing(), drawn);
}

constexpr std::string_view option_names[] = {"precision", "step_tokens", "priority", "deadline_ms"};

Result<RoleInstance> make(const RoleMaking& making) {
  const Result<EngineOptions> options =
      read_engine_options(*making.role, making.model_directory, engine_options(option_names));
  if (!options.ok()) return options.error();
  const Result<PagedKv*> kv = paged_kv_of(making);
  if (!kv.ok()) return kv.error();
  const Result<DrawingHost*> host = (*kv)->host(making.model_directory, *options);
  if (!host.ok()) return host.error();
  return RoleInstance(make_drawing_role(std::make_unique<Denoiser>(**kv, **host), *options));
}

}  // namespace

Plugin denoiser_plugin() {
  Plugin plugin;
  plugin.declaration = {
      .name = "denoiser",
      .meaning = "draws latents by flow matching on the language model's layers and KV",
      .interfaces = {{.name = "generate",
                      .inputs = {{.name = "prompt",
                                  .type = ValueType::tensor,
                                  .meaning = "where the drawing begins",
                                  .frames = PortFrames::one,
                                  .content = contents::drawing_start}},
                      .outputs = {{.name = "latents",
                                   .type = ValueType::tensor,
                                   .meaning = "what was drawn",
                                   .content = contents::latents}},
                      .frames = {},
                      .yields_max = 1,
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
