#include "roles/denoiser.h"

#include <memory>

#include "engine/scenes/flow.h"
#include "roles/paged_kv.h"

namespace sluice {

namespace {

class Denoiser final : public Role {
 public:
  Denoiser(PagedKv& kv, Flow flow) : kv_(kv), flow_(std::move(flow)) {}

  Result<void> run(Activation& activation) override {
    const Payload& prompt = *activation.input("prompt");
    const auto held = kv_.lock();
    const ModelConfig& config = kv_.config();
    KvSequence& sequence = kv_.conversation(activation.session()).sequence;
    const auto length = static_cast<std::size_t>(prompt.attribute("length").value_or(0));
    if (length == 0 || sequence.tokens != length)
      return Error{ErrorCode::stale, "the session has moved on since the drawing was asked for (" +
                                         std::to_string(sequence.tokens) +
                                         " tokens, the prompt had " + std::to_string(length) + ")"};
    FlowOptions options;
    options.steps = static_cast<std::size_t>(
        prompt.attribute("steps").value_or(static_cast<std::int64_t>(config.denoiser.steps)));
    options.guidance =
        static_cast<double>(
            prompt.attribute("guidance_milli")
                .value_or(static_cast<std::int64_t>(config.denoiser.guidance * 1000))) /
        1000;
    options.seed = static_cast<std::uint64_t>(prompt.attribute("seed").value_or(0));
    std::vector<float> x = flow_.noise(options.seed);
    if (!prompt.tensor.empty()) {
      if (prompt.tensor.dtype() != Dtype::f32 ||
          prompt.tensor.count() != static_cast<std::int64_t>(x.size()))
        return invalid_argument("the latents to start from are " + prompt.tensor.describe() +
                                ", this model needs " + std::to_string(x.size()) + " f32 values");
      options.start = static_cast<double>(prompt.attribute("strength_milli").value_or(1000)) / 1000;
      const auto t = static_cast<float>(options.start);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = (1 - t) * prompt.tensor.f32()[i] + t * x[i];
    }
    Result<std::vector<float>> drawn = draw(activation, sequence, std::move(x), options);
    if (!drawn.ok()) return drawn.error();
    activation.yield("latents", make_tensor(Tensor::of_f32(
                                    {static_cast<std::int64_t>(config.denoiser.tokens),
                                     static_cast<std::int64_t>(config.denoiser.token_dim)},
                                    std::move(drawn).value())));
    return {};
  }

 private:
  Result<std::vector<float>> draw(Activation& activation, KvSequence& sequence,
                                  std::vector<float> x, const FlowOptions& options) {
    const ModelConfig& config = kv_.config();
    const auto go_on = [&] { return !activation.cancelled(); };
    KvSequence wordless;
    if (options.guidance != 1) {
      std::vector<float> rows;
      const std::vector<std::int32_t> frame{config.bos, config.user, config.assistant, config.draw};
      kv_.backbone().embed(frame, rows);
      std::vector<float> hidden;
      const Chunk chunk{&wordless, rows};
      if (Result<void> ran = kv_.backbone().forward(kv_.pool(), {&chunk, 1}, hidden); !ran.ok()) {
        kv_.pool().truncate(wordless, 0);
        return ran.error();
      }
    }
    Result<std::vector<float>> drawn =
        flow_.draw(kv_.backbone(), kv_.pool(), sequence, &wordless, std::move(x), options, go_on);
    kv_.pool().truncate(wordless, 0);
    return drawn;
  }

  PagedKv& kv_;
  Flow flow_;
};

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
      .global_param_kinds = {"paged_kv"}};
  plugin.make = [](const RoleMaking& making) -> Result<RoleInstance> {
    Result<PagedKv*> kv = paged_kv_of(making);
    if (!kv.ok()) return kv.error();
    Result<Flow> flow = Flow::load((*kv)->config(), (*kv)->file());
    if (!flow.ok()) return flow.error();
    return RoleInstance(
        std::unique_ptr<Role>(std::make_unique<Denoiser>(**kv, std::move(flow).value())));
  };
  return plugin;
}

}  // namespace sluice
