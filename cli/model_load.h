// Loads a checkpoint for a command, after its memory plan was printed and fits.
#pragma once

#include <cstdio>
#include <string>

#include "cli/command_line.h"
#include "engine/family/memory_plan.h"
#include "engine/family/model.h"
#include "engine/tasks/chat_model.h"

namespace sluice::cli {

/// "exact", "bf16" or "int8".
kernels::WeightFormat format_named(const std::string& precision);

/// The option --kv-dtype: what keys and values are kept in, on the CPU.
struct KvKept {
  std::string named = "f32";
  Dtype dtype() const { return named == "bf16" ? Dtype::bf16 : Dtype::f32; }
};
void add_kv_dtype(Command command, KvKept& kept);
/// --temperature, --top-k, --top-p and --seed.
void add_sampling(Command command, GenerationOptions& generation);

/// Errors besides the family's: a folder's file was named instead of the folder.
Result<Architecture> load_architecture(const std::string& directory);
/// Prints the plan to `to`. Errors: exhausted, when it cannot fit.
Result<void> show_plan(const MemoryPlan& plan, std::FILE* to = stdout);
Result<Model> load_planned(const std::string& directory, std::size_t tokens,
                           kernels::WeightFormat format, std::FILE* to = stdout,
                           Dtype kv = Dtype::f32);
/// A model to talk with; the plan goes to standard error.
Result<ChatModel> load_chat(const std::string& path, std::size_t tokens,
                            const std::string& precision, Dtype kv);
/// A warning on standard error about words of a text that the model of that path does not know.
void warn_of_unknown_words(const ChatModel& model, const std::string& path,
                           const std::string& text);
/// Whether the model answered with the token that begins a drawing, which roles of a workflow make
/// and a talk alone cannot; says so on standard error.
bool note_drawing(const Model& model, const Generation& answer);

}  // namespace sluice::cli
