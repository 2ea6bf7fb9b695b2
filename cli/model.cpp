// `sluice model`: what a checkpoint is, whether it loads and computes, and how fast.
#include <cstdio>
#include <map>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/model_load.h"
#include "cli/output_files.h"
#include "engine/check/model_check.h"

namespace sluice::cli {

namespace {

std::string norm_text(const BlockShape& block) {
  std::string text = block.adaptive ? "adaptive " : "";
  text += block.norm == NormKind::rms ? "RMS" : "LayerNorm";
  return text + (block.norm_plus_one ? " (1 + w)" : "");
}

void print_block(const char* part, const BlockShape& block, std::size_t layers) {
  const char* activation = block.activation == kernels::Activation::silu        ? "SiLU"
                           : block.activation == kernels::Activation::gelu_tanh ? "GELU (tanh)"
                                                                                : "GELU (erf)";
  std::printf("%-10s %zu layers of %zu, %zu heads x %zu on %zu KV heads, MLP %zu %s%s, %s eps %g\n",
              part, layers, block.width, block.heads, block.head_dim, block.kv_heads, block.mlp,
              block.gated ? "gated " : "", activation, norm_text(block).c_str(),
              static_cast<double>(block.eps));
}

/// What the parts are, from config.json alone.
void print_architecture(const Architecture& a) {
  std::printf("family     %s\n", std::string(to_string(a.family)).c_str());
  if (a.vision.has_value()) {
    print_block("vision", a.vision->block, a.vision->layers);
    std::printf("           %zu px, patches of %zu: %zu rows a picture\n", a.vision->side,
                a.vision->patch, a.vision->patches() / (a.pixel_shuffle * a.pixel_shuffle));
  }
  if (a.qwen_vision.has_value()) {
    print_block("vision", a.qwen_vision->block, a.qwen_vision->layers);
    std::printf("           any size, patches of %zu merged %zu x %zu, windows of %zu px\n",
                a.qwen_vision->patch, a.qwen_vision->merge, a.qwen_vision->merge,
                a.qwen_vision->window);
  }
  if (a.text.has_value()) {
    print_block("decoder", a.text->block, a.text->layers);
    std::printf(
        "           vocabulary %zu%s, %zu positions, RoPE theta %g, KV %.0f bytes a token "
        "in f32%s\n",
        a.text->vocabulary, a.text->tied ? " (tied)" : "", a.text->positions_max,
        a.text->rope.theta, kv_bytes(*a.text),
        a.bidirectional_prefix ? ", bidirectional prompt" : "");
  }
  if (a.diffusion.has_value()) {
    print_block("denoiser", a.diffusion->trunk.block, a.diffusion->trunk.layers);
    std::printf("           latents %zu x %zu x %zu, patches of %zu, %zu classes\n",
                a.diffusion->channels, a.diffusion->side, a.diffusion->side, a.diffusion->patch,
                a.diffusion->classes);
  }
  if (a.vae.has_value())
    std::printf(
        "decoder    of pictures: %zu latent channels, %zu sizes (x %zu), %zu residual "
        "blocks each, %zu groups\n",
        a.vae->latent_channels, a.vae->channels.size(), a.vae->growth(), a.vae->residuals + 1,
        a.vae->groups);
  if (a.flow.has_value())
    std::printf(
        "denoiser   the decoder's own layers: %zu rows of %zu values, %zu flow steps, guidance "
        "%g\n",
        a.flow->tokens, a.flow->token_values, a.flow->steps, a.flow->guidance);
  if (a.codec.has_value())
    std::printf(
        "codec      %zu px to %zu x %zu latents of %zu channels and back, %zu and %zu layers\n",
        a.codec->side, a.codec->latent, a.codec->latent, a.codec->channels, a.codec->encoder.size(),
        a.codec->decoder.size());
  if (!a.action.has_value()) return;
  print_block("expert", a.action->expert.block, a.action->expert.layers);
  std::printf("           %zu actions of %zu, %zu flow steps, %zu cameras, language mask %s\n",
              a.action->horizon, a.action->dims, a.action->steps, a.action->cameras,
              a.action->causal_language ? "causal" : "bidirectional");
}

double print_tensors(const SafetensorsFile& file) {
  std::map<std::string, std::pair<std::size_t, double>> by_dtype;
  double bytes = 0;
  double values = 0;
  for (const auto& [name, view] : file.tensors()) {
    ++by_dtype[view.dtype].first;
    by_dtype[view.dtype].second += static_cast<double>(view.bytes.size());
    bytes += static_cast<double>(view.bytes.size());
    double count = 1;
    for (const std::int64_t size : view.shape) count *= static_cast<double>(size);
    values += count;
  }
  std::printf("tensors    %zu, %.3f M values, %s:", file.tensors().size(), values / 1e6,
              megabytes(bytes).c_str());
  for (const auto& [dtype, part] : by_dtype)
    std::printf(" %s %zu (%s)", dtype.c_str(), part.first, megabytes(part.second).c_str());
  std::printf("\n");
  return bytes;
}

int inspect(const std::string& directory, kernels::WeightFormat format) {
  const Result<Architecture> architecture = load_architecture(directory);
  if (!architecture.ok()) return fail(architecture.error().message);
  print_architecture(*architecture);
  const Result<SafetensorsFile> file = open_weights(directory);
  if (!file.ok()) return fail(file.error().message);
  print_tensors(*file);
  const Result<void> fits = show_plan(plan_memory(*file, *architecture, 4096, format));
  return fits.ok() ? 0 : fail(fits.error().message);
}

int check(const std::string& directory, const std::string& inputs, const std::string& outputs,
          kernels::WeightFormat format, Dtype kv) {
  if (!inputs.empty()) {
    const Result<bool> there = is_there(inputs);
    if (!there.ok()) return fail(there.error().message);
    if (!*there) return fail(inputs + ": no such file");
  }
  if (!outputs.empty()) {
    std::vector<std::string> read = files_below(directory);
    read.push_back(inputs);
    if (const Result<void> kept = check_not_over("--outputs " + outputs, outputs, read); !kept.ok())
      return fail(kept.error().message);
    if (const Result<void> can = check_can_write(outputs); !can.ok())
      return fail("--outputs: " + can.error().message);
  }
  const Result<Model> model = load_planned(directory, 4096, format, stdout, kv);
  if (!model.ok()) return fail(model.error().message);
  std::printf("loads      every tensor of family %s is there and has its shape\n",
              std::string(to_string(model->architecture().family)).c_str());
  if (inputs.empty()) return 0;
  const Result<SafetensorsFile> file = SafetensorsFile::open(inputs);
  if (!file.ok()) return fail(file.error().message);
  const NamedInputs given(*file);
  const Result<NamedTensors> made = run_model(*model, given, kv);
  if (!made.ok()) return fail(inputs + ": " + made.error().message);
  // Of a camera that is masked, or mistyped.
  for (const std::string& name : given.unread()) std::printf("not read   %s\n", name.c_str());
  for (const auto& [name, tensor] : *made)
    std::printf("output     %s %s\n", name.c_str(), tensor.describe().c_str());
  if (outputs.empty()) return 0;
  const Result<void> saved = save_safetensors(outputs, *made);
  return saved.ok() ? 0 : fail(saved.error().message);
}

}  // namespace

void add_model(Command app, Chosen& chosen) {
  Command command =
      app.add_subcommand("model", "What a checkpoint is, whether it computes, and how fast");
  command.require_subcommand();
  struct Options {
    std::string directory, inputs, outputs;
    std::string precision = "exact";
    KvKept kept;
  };
  auto options = std::make_shared<Options>();
  const auto part = [&](const char* name, const char* meaning) {
    Command sub = command.add_subcommand(name, meaning);
    sub.add_option("DIR", options->directory,
                   "a GGUF file, or a directory with config.json and safetensors")
        .required();
    return sub;
  };
  Command inspecting = part("inspect", "Family, shapes, tensors and the memory it would take");
  const auto precision = [&](Command sub) {
    sub.add_option("--precision", options->precision,
                   "exact (f32 sums of what is stored), bf16 or int8")
        .one_of({"exact", "bf16", "int8"});
  };
  precision(inspecting);
  inspecting.callback([options, &chosen] {
    chosen = [=] { return inspect(options->directory, format_named(options->precision)); };
  });
  Command checking = part("check", "Load it; with inputs, run it and write every stage's outputs");
  checking.add_option("--inputs", options->inputs, "a safetensors file; names in docs/MODELS.md");
  checking.add_option("--outputs", options->outputs, "where the outputs go, as safetensors")
      .needs("--inputs");
  precision(checking);
  add_kv_dtype(checking, options->kept);
  checking.callback([options, &chosen] {
    chosen = [=] {
      return check(options->directory, options->inputs, options->outputs,
                   format_named(options->precision), options->kept.dtype());
    };
  });
  add_model_ask(command, chosen);
  add_model_bench(command, chosen);
}

}  // namespace sluice::cli
