// Every family's f32 forward against an implementation that nobody here wrote.
#include "golden.h"

#include <functional>

using namespace sluice;

TEST_CASE("every stage of every family agrees with the reference implementation") {
  for (const char* family :
       {"llama", "llama3", "qwen2", "gemma", "smollm3", "siglip", "dinov2", "paligemma",
        "qwen2_5_vl", "smolvlm", "pi05", "pi0", "openvla", "smolvla", "dit", "vae"}) {
    const golden::Case golden(family);
    for (const auto& [stage, error] : golden.errors(golden.run(golden.architecture()))) {
      INFO(family << " " << stage << " " << error);
      CHECK(error <= golden::limit);
    }
  }
}

namespace {

struct Mistake {
  const char* family;
  const char* what;
  std::function<void(Architecture&)> make;
};

using kernels::Activation;

const std::vector<Mistake> mistakes = {
    {"llama", "RMS eps 1e-6", [](Architecture& a) { a.text->block.eps = 1e-6F; }},
    {"llama", "theta 1e6", [](Architecture& a) { a.text->rope.theta = 1e6; }},
    {"llama", "GELU for SiLU",
     [](Architecture& a) { a.text->block.activation = Activation::gelu_tanh; }},
    {"llama", "a bidirectional prompt", [](Architecture& a) { a.bidirectional_prefix = true; }},
    {"llama3", "no RoPE scaling",
     [](Architecture& a) { a.text->rope.scaling = Rope::Scaling::none; }},
    {"llama3", "linear RoPE scaling",
     [](Architecture& a) { a.text->rope.scaling = Rope::Scaling::linear; }},
    {"llama3", "biases left out", [](Architecture& a) { a.text->block.mlp_bias = false; }},
    {"qwen2", "qkv bias left out", [](Architecture& a) { a.text->block.qkv_bias = false; }},
    {"qwen2", "RMS eps 1e-5", [](Architecture& a) { a.text->block.eps = 1e-5F; }},
    {"gemma", "norms without the 1", [](Architecture& a) { a.text->block.norm_plus_one = false; }},
    {"gemma", "embeddings not scaled", [](Architecture& a) { a.text->embedding_scale = 1; }},
    {"gemma", "erf GELU", [](Architecture& a) { a.text->block.activation = Activation::gelu_erf; }},
    {"smollm3", "every layer turns", [](Architecture& a) { a.text->layers_without_rope.clear(); }},
    {"smollm3", "the other layers turn",
     [](Architecture& a) { a.text->layers_without_rope.flip(); }},
    {"siglip", "erf GELU",
     [](Architecture& a) { a.vision->block.activation = Activation::gelu_erf; }},
    {"siglip", "LayerNorm eps 1e-5", [](Architecture& a) { a.vision->block.eps = 1e-5F; }},
    {"siglip", "no last norm", [](Architecture& a) { a.vision->final_norm = false; }},
    {"dinov2", "tanh GELU",
     [](Architecture& a) { a.vision->block.activation = Activation::gelu_tanh; }},
    {"dinov2", "LayerScale left out", [](Architecture& a) { a.vision->block.layer_scale = false; }},
    {"paligemma", "a causal prompt", [](Architecture& a) { a.bidirectional_prefix = false; }},
    {"paligemma", "image features not projected from the last norm",
     [](Architecture& a) { a.vision->final_norm = false; }},
    {"qwen2_5_vl", "positions by time only",
     [](Architecture& a) {
       a.text->rope.sections = {8, 0, 0};
     }},
    {"qwen2_5_vl", "height and width swapped",
     [](Architecture& a) {
       a.text->rope.sections = {2, 2, 4};
     }},
    {"qwen2_5_vl", "every layer sees the whole picture",
     [](Architecture& a) {
       a.qwen_vision->full_layers = {0, 1, 2, 3};
     }},
    {"qwen2_5_vl", "a smaller window", [](Architecture& a) { a.qwen_vision->window = 56; }},
    {"smolvlm", "RMS eps 1e-6", [](Architecture& a) { a.text->block.eps = 1e-6F; }},
    {"smolvlm", "theta 1e4", [](Architecture& a) { a.text->rope.theta = 1e4; }},
    {"pi05", "erf GELU in SigLIP",
     [](Architecture& a) { a.vision->block.activation = Activation::gelu_erf; }},
    {"pi05", "erf GELU in Gemma",
     [](Architecture& a) { a.text->block.activation = Activation::gelu_erf; }},
    {"pi05", "SigLIP LayerNorm eps 1e-5", [](Architecture& a) { a.vision->block.eps = 1e-5F; }},
    {"pi05", "RMS eps 1e-5",
     [](Architecture& a) { a.text->block.eps = a.action->expert.block.eps = 1e-5F; }},
    {"pi05", "language sees all", [](Architecture& a) { a.action->causal_language = false; }},
    {"pi05", "theta 1e6",
     [](Architecture& a) { a.text->rope.theta = a.action->expert.rope.theta = 1e6; }},
    {"pi05", "words not scaled", [](Architecture& a) { a.text->embedding_scale = 1; }},
    {"pi0", "the expert's norms without the 1",
     [](Architecture& a) { a.action->expert.block.norm_plus_one = false; }},
    {"pi0", "theta 1e6 in the expert", [](Architecture& a) { a.action->expert.rope.theta = 1e6; }},
    {"openvla", "tanh GELU in SigLIP",
     [](Architecture& a) { a.second_vision->block.activation = Activation::gelu_tanh; }},
    {"openvla", "the towers' last layers and norms",
     [](Architecture& a) { a.vision->layers += 1, a.second_vision->final_norm = true; }},
    {"openvla", "one word token more", [](Architecture& a) { a.action_tokens_end += 1; }},
    {"smolvla", "GELU in the expert",
     [](Architecture& a) { a.action->expert.block.activation = Activation::gelu_tanh; }},
    {"smolvla", "words not scaled", [](Architecture& a) { a.text->embedding_scale = 1; }},
    {"smolvla", "theta 1e5",
     [](Architecture& a) { a.text->rope.theta = a.action->expert.rope.theta = 1e5; }},
    {"dit", "second norm's eps as the first's",
     [](Architecture& a) { a.diffusion->trunk.block.eps2 = 0; }},
    {"dit", "erf GELU",
     [](Architecture& a) { a.diffusion->trunk.block.activation = Activation::gelu_erf; }},
    {"dit", "qkv bias left out",
     [](Architecture& a) { a.diffusion->trunk.block.qkv_bias = false; }},
    {"dit", "another schedule", [](Architecture& a) { a.diffusion->train_steps = 900; }},
    {"vae", "no attention", [](Architecture& a) { a.vae->attention = false; }},
    {"vae", "other groups", [](Architecture& a) { a.vae->groups = 4; }},
    {"vae", "no first convolution", [](Architecture& a) { a.vae->post_convolution = false; }},
    {"pi05", "9 steps", [](Architecture& a) { a.action->steps = 9; }},
};

}  // namespace

TEST_CASE("a planted mistake fails the comparison") {
  for (const Mistake& mistake : mistakes) {
    const golden::Case golden(mistake.family);
    Architecture wrong = golden.architecture();
    mistake.make(wrong);
    INFO(mistake.family << ": " << mistake.what);
    const double most = golden.worst(golden.run(wrong));
    CAPTURE(most);
    CHECK(most > 1.5 * golden::limit);
  }
}
