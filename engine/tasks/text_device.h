// A device beside the CPU on which roles may run a model's decoder.
//
// Whoever puts a program together hands one in, where it was built with one. Thread: any. Errors:
// unavailable (there is no such device, and why), exhausted (its memory), invalid_argument (a
// precision or a decoder that it does not run); those of the checkpoint's files.
#pragma once

#include <memory>

#include "engine/checkpoint/safetensors.h"
#include "engine/family/architecture.h"
#include "engine/tasks/text_engine.h"
#include "kernels/matmul.h"

namespace sluice {

class TextDevice {
 public:
  /// For keys and values.
  struct Pages {
    std::size_t tokens = 0;  // of one
    std::size_t count = 0;
    PageKeys::Secret secret{};  // of their keys
  };

  virtual ~TextDevice() = default;
  /// Whether it is there.
  virtual Result<void> find() const = 0;
  /// The checkpoint's decoder of words. The engine may outlive the file.
  virtual Result<std::unique_ptr<TextEngine>> load(const Architecture& architecture,
                                                   const SafetensorsFile& file,
                                                   kernels::WeightFormat format,
                                                   const Pages& pages) const = 0;
};

}  // namespace sluice
