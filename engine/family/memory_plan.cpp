#include "engine/family/memory_plan.h"

#include <cstdio>

#include "base/own_cgroup.h"

namespace sluice {

std::string megabytes(double bytes) {
  char text[64];
  std::snprintf(text, sizeof text, bytes < 1e7 ? "%.2f MB" : "%.0f MB", bytes / 1e6);
  return text;
}

double parameter_count(const BlockShape& b) {
  return static_cast<double>(b.width * b.head_shape().row() + b.heads * b.head_dim * b.width +
                             b.width * b.mlp * (b.gated ? 3 : 2));
}

namespace {

double tower_parameters(const TowerShape& tower) {
  return static_cast<double>(tower.layers) * parameter_count(tower.block);
}

}  // namespace

double parameter_count(const DecoderShape& shape) {
  const double embedding = static_cast<double>(shape.vocabulary * shape.block.width);
  return static_cast<double>(shape.layers) * parameter_count(shape.block) +
         embedding * (shape.tied ? 1 : 2);
}

double parameter_count(const Architecture& a) {
  double count = 0;
  if (a.text.has_value()) count += parameter_count(*a.text);
  if (a.action.has_value()) count += parameter_count(a.action->expert);
  if (a.vision.has_value()) count += tower_parameters(*a.vision);
  if (a.second_vision.has_value()) count += tower_parameters(*a.second_vision);
  return count;
}

double kv_bytes(const DecoderShape& shape, Dtype dtype) {
  return static_cast<double>(shape.layers * 2 * shape.block.kv_heads * shape.block.head_dim *
                             size_of(dtype));
}

double machine_bytes() { return static_cast<double>(memory_here().bytes); }

std::string MemoryPlan::text() const {
  return (weights == 0 ? "" : "weights " + megabytes(weights) + ", ") + "KV " + megabytes(kv) +
         " for " + std::to_string(kv_tokens) + " tokens; " +
         (memory_here().is_limited ? "the limit of its cgroup is " : "the machine has ") +
         megabytes(machine);
}

Result<void> MemoryPlan::check() const {
  if (fits()) return {};
  if (weights == 0)
    return Error{ErrorCode::exhausted, "its keys and values do not fit: " + text() +
                                           "; give it fewer `pages`, or `kv_dtype: bf16`"};
  return Error{ErrorCode::exhausted, "the model does not fit: " + text() +
                                         "; nothing was loaded. Take a narrower precision, or "
                                         "fewer pages for keys and values"};
}

MemoryPlan plan_memory(const SafetensorsFile& file, const Architecture& architecture,
                       std::size_t tokens, kernels::WeightFormat format, Dtype kv) {
  MemoryPlan plan;
  if (file.is_random())
    plan.weights = parameter_count(architecture) * (format == kernels::WeightFormat::exact  ? 4
                                                    : format == kernels::WeightFormat::bf16 ? 2
                                                                                            : 1);
  for (const auto& [name, view] : file.tensors()) {
    double count = 1;
    for (const std::int64_t size : view.shape) count *= static_cast<double>(size);
    // What is kept: an exact bf16 matrix stays as it is and is widened for wide products.
    const double exact = view.in_place          ? static_cast<double>(view.bytes.size()) / count
                         : view.dtype == "BF16" ? 6.0
                                                : 4.0;
    plan.weights += count * (view.shape.size() < 2                    ? 4.0
                             : format == kernels::WeightFormat::exact ? exact
                             : format == kernels::WeightFormat::bf16  ? 2.0
                                                                      : 1.0);
  }
  const DecoderShape* over_pages = architecture.text.has_value() ? &*architecture.text
                                   : architecture.diffusion.has_value()
                                       ? &architecture.diffusion->trunk
                                       : nullptr;
  if (over_pages != nullptr) plan.kv = kv_bytes(*over_pages, kv) * static_cast<double>(tokens);
  plan.kv_tokens = tokens;
  plan.machine = machine_bytes();
  return plan;
}

}  // namespace sluice
