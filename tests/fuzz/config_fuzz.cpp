// Any bytes as a config.json: refused with the key, or shapes that fit together.
#include <cstdint>
#include <string>

#include "roles/model/architecture.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<Architecture> made = Architecture::parse(text, "fuzz");
  if (!made.ok()) {
    if (made.error().message.empty()) __builtin_trap();
    return 0;
  }
  if (made->text.has_value()) {
    const BlockShape& block = made->text->block;
    if (block.kv_heads == 0 || block.heads % block.kv_heads != 0 || block.head_dim % 2 != 0 ||
        made->text->layers == 0 || made->text->vocabulary == 0)
      __builtin_trap();
  }
  if (made->vision.has_value() &&
      (made->vision->patches() == 0 || made->vision->block.head_dim == 0))
    __builtin_trap();
  if (made->qwen_vision.has_value() && made->qwen_vision->block.head_dim % 4 != 0) __builtin_trap();
  if (!made->text.has_value() && !made->vision.has_value()) __builtin_trap();
  return 0;
}
