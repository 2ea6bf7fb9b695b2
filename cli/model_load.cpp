#include "cli/model_load.h"

#include <unistd.h>

#include <cstdio>

namespace sluice::cli {

std::string megabytes(double bytes) {
  char text[64];
  std::snprintf(text, sizeof text, bytes < 1e7 ? "%.2f MB" : "%.0f MB", bytes / 1e6);
  return text;
}

double kv_bytes(const DecoderShape& shape) {
  return static_cast<double>(shape.layers * 2 * shape.block.kv_heads * shape.block.head_dim * 4);
}

Result<void> plan_memory(const SafetensorsFile& file, const Architecture& a, std::size_t tokens,
                         kernels::WeightFormat format, std::FILE* to) {
  double weights = 0;
  for (const auto& [name, view] : file.tensors()) {
    double count = 1;
    for (const std::int64_t size : view.shape) count *= static_cast<double>(size);
    // What is kept: an exact bf16 matrix stays as it is and is widened for wide products.
    const double exact = view.dtype == "BF16" ? 6.0 : 4.0;
    weights += count * (view.shape.size() < 2                    ? 4.0
                        : format == kernels::WeightFormat::exact ? exact
                        : format == kernels::WeightFormat::bf16  ? 2.0
                                                                 : 1.0);
  }
  const double kv = a.text.has_value() ? kv_bytes(*a.text) * static_cast<double>(tokens) : 0;
  const double there =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  std::fprintf(to, "memory     weights %s, KV %s for %zu tokens; the machine has %s\n",
               megabytes(weights).c_str(), megabytes(kv).c_str(), tokens, megabytes(there).c_str());
  if (weights + kv > 0.95 * there)
    return Error{ErrorCode::exhausted, "the model needs " + megabytes(weights + kv) +
                                           " and the machine has " + megabytes(there) +
                                           "; nothing was loaded"};
  return {};
}

kernels::WeightFormat format_named(const std::string& precision) {
  return precision == "bf16"   ? kernels::WeightFormat::bf16
         : precision == "int8" ? kernels::WeightFormat::int8
                               : kernels::WeightFormat::exact;
}

Result<Model> load_planned(const std::string& directory, std::size_t tokens,
                           kernels::WeightFormat format, std::FILE* to) {
  Result<Architecture> architecture = Architecture::load(directory);
  if (!architecture.ok()) return architecture.error();
  Result<SafetensorsFile> file = open_weights(directory);
  if (!file.ok()) return file.error();
  if (Result<void> fits = plan_memory(*file, *architecture, tokens, format, to); !fits.ok())
    return fits.error();
  return Model::load(std::move(architecture).value(), std::move(file).value(), format);
}

}  // namespace sluice::cli
