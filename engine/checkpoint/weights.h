// Loads the layers of a checkpoint by name, with the shapes that the configuration demands.
//
// With an arena, matrices that another process has made are taken as they lie there, and those that
// this one makes are kept in it; norms and biases, some kilobytes, are each process' own.
// The first thing that is missing or of the wrong shape is kept and stops the loading.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weight_arena.h"
#include "kernels/matmul.h"

namespace sluice {

struct Linear {
  kernels::Weight weight;
  std::vector<float> bias;  // empty: none
};

struct Norm {
  std::vector<float> weight;
  std::vector<float> bias;  // empty: an RMS norm
};

class WeightLoader {
 public:
  /// `format`: how matrices are kept. `arena`: null: in memory of their own.
  explicit WeightLoader(const SafetensorsFile& file,
                        kernels::WeightFormat format = kernels::WeightFormat::exact,
                        WeightArena* arena = nullptr)
      : file_(file), format_(format), arena_(arena) {}

  Linear linear(const std::string& name, std::size_t out, std::size_t in, bool bias);
  /// Several layers of one input as one: their rows one after the other.
  Linear stacked(const std::vector<std::string>& names, const std::vector<std::size_t>& outs,
                 std::size_t in, bool bias);
  /// `plus_one`: the stored weight lacks the 1 that the norm adds to it (Gemma).
  Norm norm(const std::string& name, std::size_t width, bool bias, bool plus_one = false);
  std::vector<float> values(const std::string& name, std::size_t count);
  /// `in`: how many of the values a row of a matrix has; 1: no matrix.
  Tensor tensor(const std::string& name, std::size_t count, std::size_t in = 1);

  Result<void> outcome() const {
    if (!error_.has_value()) return {};
    return *error_;
  }

 private:
  /// Of matrices in a GGUF file, kept exact: rows where they lie. False: not all are such.
  bool in_place(const std::vector<std::string>& names, const std::vector<std::size_t>& outs,
                std::size_t in, kernels::Weight& weight);
  /// False: the arena does not have it.
  bool is_shared(const std::vector<std::string>& names, const std::vector<std::size_t>& outs,
                 std::size_t in, kernels::Weight& weight) const;
  kernels::Weight kept(const std::vector<std::string>& names, kernels::Weight weight) const;
  Tensor random_tensor(const std::string& name, std::size_t count, std::size_t in);

  const SafetensorsFile& file_;
  kernels::WeightFormat format_;
  WeightArena* arena_;
  std::optional<Error> error_;
};

}  // namespace sluice
