// Any bytes as a GGUF file: refused, or its configuration, tokenizer and every tensor can be used.
#include <cstdint>
#include <string>

#include "engine/family/gguf_model.h"
#include "engine/text/chat.h"
#include "engine/text/gguf_tokenizer.h"

using namespace sluice;

namespace {

template <typename T>
bool refused(const Result<T>& made) {
  if (!made.ok() && made.error().message.empty()) __builtin_trap();
  return !made.ok();
}

void use_tensors(const GgufFile& file, std::size_t size) {
  const Result<Architecture> architecture = gguf_architecture(file);
  if (refused(architecture)) return;
  const Result<SafetensorsFile> tensors = gguf_tensors(file, *architecture);
  if (refused(tensors)) return;
  for (const auto& [name, view] : tensors->tensors()) {
    const Result<Tensor> tensor = tensors->load(name);
    if (!refused(tensor) && static_cast<std::size_t>(tensor->count()) > 2 * size) __builtin_trap();
  }
}

void use_tokenizer(const GgufFile& file) {
  const Result<Tokenizer> made = gguf_tokenizer(file);
  if (refused(made)) return;
  std::vector<std::int32_t> ids = made->encode("ab  The robot's \xe4\xbd\xa0 12\n<s>", true);
  for (const std::int32_t end : gguf_end_tokens(file)) ids.push_back(end);
  ids.push_back(-1);
  (void)made->decode(ids);
  (void)made->decode(ids, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<GgufFile> file =
      GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (refused(file)) return 0;
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : file->tensors())
    for (const std::byte byte : tensor.bytes) sum += static_cast<std::uint64_t>(byte);
  use_tensors(*file, size);
  use_tokenizer(*file);
  if (const auto said = file->text("tokenizer.chat_template"); said.has_value())
    (void)refused(ChatTemplate::recognise(std::string(*said), "fuzz"));
  return sum == ~std::uint64_t{0} ? 1 : 0;
}
