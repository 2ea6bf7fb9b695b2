// What a GGUF file's metadata and tensor names mean: a configuration, and tensors under the names
// that transformers gives them.
//
// Architectures llama, qwen2 and gemma. llama.cpp stores rows of llama's q and k in another order
// (for its RoPE) and Gemma's norms with their 1 added: both are told on, nothing is copied.
// Errors: corrupt (which key, what it must be), invalid_argument (an architecture or an option that
// is not supported, by name). Source: llama.cpp's convert_hf_to_gguf.py and llama-arch.cpp.
#pragma once

#include "engine/checkpoint/gguf.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/family/architecture.h"

namespace sluice {

Result<Architecture> gguf_architecture(const GgufFile& file);
Result<SafetensorsFile> gguf_tensors(const GgufFile& file, const Architecture& architecture);

}  // namespace sluice
