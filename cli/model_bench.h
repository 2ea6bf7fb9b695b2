// What `sluice model bench` measures with, and its parts.
#pragma once

#include <chrono>
#include <string>

#include "cli/model_load.h"
#include "engine/policy/policy_engine.h"

namespace sluice::cli {

struct BenchOptions {
  std::string directory, precision = "exact", device = "cpu";
  static constexpr std::size_t prompt_usual = 512, words_usual = 32;
  std::size_t prompt = 0, answer = 64, batch = 1;  // no prompt: the usual, or what fits
  std::size_t views = 0, words = 0;                // of a policy; none: all its cameras, the usual
  bool random = false;                             // weights are drawn
  KvKept kept;

  bool narrow() const { return precision == "bf16"; }
};

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline constexpr std::size_t bench_page_tokens = 16;

/// What stands in the directory, or a checkpoint of random weights.
Result<SafetensorsFile> bench_weights(const BenchOptions& options);

/// A policy's control step on the CPU or on a GPU. Returns the exit code.
int bench_policy(const BenchOptions& options, const Architecture& architecture);

}  // namespace sluice::cli
