#include "cli/model_load.h"

#include "cli/file_kind.h"
#include "engine/text/unknown_words.h"

namespace sluice::cli {

kernels::WeightFormat format_named(const std::string& precision) {
  return precision == "bf16"   ? kernels::WeightFormat::bf16
         : precision == "int8" ? kernels::WeightFormat::int8
                               : kernels::WeightFormat::exact;
}

void add_kv_dtype(Command command, KvKept& kept) {
  command
      .add_option("--kv-dtype", kept.named,
                  "f32 or bf16, which takes half the memory, of keys and values on the CPU")
      .one_of({"f32", "bf16"})
      .shown_default();
}

void add_sampling(Command command, GenerationOptions& generation) {
  command.add_option("--temperature", generation.sampling.temperature, "0: the likeliest token")
      .check(Range(0.0, 100.0));
  command.add_option("--top-k", generation.sampling.top_k, "of so many likeliest; 0: all");
  command.add_option("--top-p", generation.sampling.top_p, "of those with so much probability")
      .check(Range(0.0, 1.0));
  command.add_option("--seed", generation.seed, "of the draws");
}

Result<void> show_plan(const MemoryPlan& plan, std::FILE* to) {
  std::fprintf(to, "memory     %s\n", plan.text().c_str());
  return plan.check();
}

Result<Architecture> load_architecture(const std::string& directory) {
  if (Result<void> kind = check_is_checkpoint(directory); !kind.ok()) return kind.error();
  return Architecture::load(directory);
}

Result<Model> load_planned(const std::string& directory, std::size_t tokens,
                           kernels::WeightFormat format, std::FILE* to, Dtype kv) {
  if (Result<void> kind = check_is_checkpoint(directory); !kind.ok()) return kind.error();
  return Model::open(directory, format, ModelParts::all,
                     [&](const Architecture& architecture, const SafetensorsFile& file) {
                       return show_plan(plan_memory(file, architecture, tokens, format, kv), to);
                     });
}

Result<ChatModel> load_chat(const std::string& path, std::size_t tokens,
                            const std::string& precision, Dtype kv) {
  Result<Model> loaded = load_planned(path, tokens, format_named(precision), stderr, kv);
  if (!loaded.ok()) return loaded.error();
  return ChatModel::open(path, std::move(loaded).value());
}

void warn_of_unknown_words(const ChatModel& model, const std::string& path,
                           const std::string& text) {
  if (const std::string unknown = unknown_words_text(model.tokenizer(), text, path);
      !unknown.empty())
    std::fprintf(stderr, "warning: %s\n", unknown.c_str());
}

bool note_drawing(const Model& model, const Generation& answer) {
  const auto& turns = model.architecture().turns;
  if (!turns.has_value() || answer.finish != Generation::Finish::end_token ||
      answer.end_token != turns->draw)
    return false;
  std::fprintf(stderr,
               "the model answers with a drawing, which a workflow with a denoiser makes, as "
               "workflows/image_chat.yaml\n");
  return true;
}

}  // namespace sluice::cli
