// Loads a checkpoint for a command, after its memory plan was printed and fits.
#pragma once

#include <cstdio>
#include <string>

#include "roles/model/model.h"

namespace sluice::cli {

std::string megabytes(double bytes);
/// Of keys and values, in f32.
double kv_bytes(const DecoderShape& shape);
/// "exact", "bf16" or "int8".
kernels::WeightFormat format_named(const std::string& precision);

/// Prints the plan to `to` before anything is allocated. Errors: exhausted, when it cannot fit.
Result<void> plan_memory(const SafetensorsFile& file, const Architecture& a, std::size_t tokens,
                         kernels::WeightFormat format, std::FILE* to = stdout);
Result<Model> load_planned(const std::string& directory, std::size_t tokens,
                           kernels::WeightFormat format, std::FILE* to = stdout);

}  // namespace sluice::cli
