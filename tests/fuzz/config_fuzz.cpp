// Any bytes as a config.json, and what is behind a NUL as its preprocessor_config.json and its chat
// template: refused with the key, or shapes that fit together and a picture that comes out whole.
#include <cstdint>
#include <string>

#include "engine/text/chat.h"

using namespace sluice;

namespace {

void check_pictures(const std::string& text, const Architecture& architecture) {
  const Result<PictureSteps> steps = PictureSteps::parse(text, "fuzz", architecture);
  if (!steps.ok()) {
    if (steps.error().message.empty()) __builtin_trap();
    return;
  }
  constexpr std::size_t most = 64;  // larger ones are right too, and slow
  if (steps->height > most || steps->width > most || steps->shortest > most ||
      steps->longest > most || steps->pixels_min > most * most || steps->pixels_max > most * most)
    return;
  if (architecture.vision.has_value() && architecture.vision->side > most) return;
  if (architecture.qwen_vision.has_value() &&
      (architecture.qwen_vision->patch * architecture.qwen_vision->merge > most ||
       architecture.qwen_vision->temporal > 4))
    return;
  const Tensor picture = Tensor::zeros(Dtype::u8, {3, 5, 3}).value();
  const Result<PictureInput> made = prepare_picture(*steps, architecture, picture);
  if (made.ok() && made->pixels.empty()) __builtin_trap();
}

void check_chat(const std::string& text) {
  const Result<ChatTemplate> chat = ChatTemplate::recognise(text, "fuzz");
  if (!chat.ok()) return;
  const Result<std::string> said = chat->render(std::vector<ChatMessage>{{"user", text, {}}});
  if (!said.ok() || said->empty() || chat->ends().empty()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string whole(reinterpret_cast<const char*>(data), size);
  const std::string text = whole.substr(0, whole.find('\0'));
  const std::string behind = text.size() == size ? "{}" : whole.substr(text.size() + 1);
  check_chat(behind);
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
  if (!made->text.has_value() && !made->vision.has_value() && !made->diffusion.has_value() &&
      !made->vae.has_value())
    __builtin_trap();
  check_pictures(behind, *made);
  return 0;
}
