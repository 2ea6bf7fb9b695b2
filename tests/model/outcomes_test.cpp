// Configurations, picture steps, tokenizers and files of weights: every place changed, and what is
// made of each.
#include "tests/outcomes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/crc32c.h"
#include "engine/checkpoint/gguf.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/family/architecture.h"
#include "engine/family/gguf_model.h"
#include "engine/picture/image_file.h"
#include "engine/picture/picture_input.h"
#include "engine/text/chat.h"
#include "engine/text/tokenizer.h"
#include "tests/directories.h"

namespace sluice {
namespace {

std::string corpus(const std::string& name) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/tests/fuzz/corpus/" + name,
                     std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

test::Outcomes::Bytes bytes_of(const std::string& text) {
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// All numbers of a shape, in an order that never changes.
struct Words {
  std::string text;
  template <typename... Values>
  void add(const char* name, Values... values) {
    text += std::string(text.empty() ? "" : "; ") + name;
    ((text += " " + number(static_cast<double>(values))), ...);
  }
  void add(const char* name, const BlockShape& b) {
    add(name, b.width, b.heads, b.kv_heads, b.head_dim, b.mlp, static_cast<int>(b.norm), b.eps,
        b.eps2, b.norm_plus_one, b.adaptive, b.layer_scale, static_cast<int>(b.activation), b.gated,
        b.qkv_bias, b.out_bias, b.mlp_bias);
  }
  void add(const char* name, const DecoderShape& d) {
    add(name, d.block);
    add("decoder", d.layers, d.vocabulary, d.positions_max, d.embedding_scale, d.tied,
        d.cross_every, d.head, d.rope.theta, d.layers_without_rope.size());
  }
  void add(const char* name, const TowerShape& t) {
    add(name, t.block);
    add("tower", t.layers, t.side, t.patch, t.registers, t.class_position, t.class_token,
        t.final_norm, t.keep_extra);
  }
};

std::string text_of(const Architecture& a) {
  Words words;
  words.text = to_string(a.family);
  if (a.text) words.add("text", *a.text);
  if (a.vision) words.add("vision", *a.vision);
  if (a.second_vision) words.add("second", *a.second_vision);
  if (a.qwen_vision) words.add("qwen", a.qwen_vision->block);
  if (a.action) {
    words.add("expert", a.action->expert);
    words.add("action", a.action->horizon, a.action->dims, a.action->steps, a.action->cameras,
              a.action->state_dims, a.action->causal_language);
  }
  words.add("others", a.action_tokens_end, a.image_token, a.pixel_shuffle, a.projector_hidden,
            a.bidirectional_prefix, static_cast<int>(a.usual_format), a.diffusion.has_value(),
            a.vae.has_value(), a.codec.has_value(), a.flow.has_value(), a.statistics.size());
  return words.text;
}

std::string read_config(const std::string& json) {
  const Result<Architecture> made = Architecture::parse(json, "c");
  return made.ok() ? text_of(*made) : made.error().message;
}

std::string text_of(const PictureSteps& s) {
  Words words;
  words.add("steps", static_cast<int>(s.fit), static_cast<int>(s.filter), s.height, s.width,
            s.shortest, s.crop, s.pixels_min, s.pixels_max, s.longest, s.split);
  for (const auto& mean : s.mean) words.add("mean", mean[0], mean[1], mean[2]);
  for (const auto& deviation : s.deviation)
    words.add("deviation", deviation[0], deviation[1], deviation[2]);
  return words.text;
}

}  // namespace

TEST_CASE("each place of a configuration that is changed is refused or read, as before") {
  test::Outcomes outcomes("configurations");
  for (const char* name : {"llama3", "gemma", "siglip", "dinov2", "dit", "vae", "pi05", "paligemma",
                           "smolvlm", "qwen2_5_vl"})
    outcomes.change_text(name, corpus(std::string("config/") + name + ".json"), read_config);
  outcomes.require_as_kept();
}

TEST_CASE("each place of a picture's steps that is changed is refused or read, as before") {
  test::Outcomes outcomes("picture_steps");
  for (const char* name :
       {"siglip", "dinov2", "bilinear", "pi05", "qwen", "smolvla", "smolvlm", "smolvlm_whole"}) {
    // A configuration, and behind a NUL the steps of its pictures.
    const std::string both = corpus(std::string("config/") + name + "_picture.bin");
    const std::size_t end = both.find('\0');
    REQUIRE(end != std::string::npos);
    const Result<Architecture> made = Architecture::parse(both.substr(0, end), "c");
    REQUIRE(made.ok());
    outcomes.change_text(name, both.substr(end + 1), [&](const std::string& json) {
      const Result<PictureSteps> steps = PictureSteps::parse(json, "p", *made);
      return steps.ok() ? text_of(*steps) : steps.error().message;
    });
  }
  outcomes.require_as_kept();
}

TEST_CASE("each place of a tokenizer that is changed is refused or read, as before") {
  test::Outcomes outcomes("tokenizers");
  for (const char* name : {"metaspace", "smollm", "llama2"})
    outcomes.change_text(name, corpus(std::string("tokenizer/") + name + ".json"),
                         [](const std::string& json) {
                           const Result<Tokenizer> made = Tokenizer::parse(json, "t");
                           if (!made.ok()) return made.error().message;
                           const auto ids = made->encode("<s>The robot's  a\u00e4 12\n", true);
                           std::string words;
                           for (const std::int32_t id : ids) words += std::to_string(id) + " ";
                           return words + "'" + made->decode(ids) + "'";
                         });
  outcomes.require_as_kept();
}

TEST_CASE("chats are written by each template as they were before") {
  test::Outcomes outcomes("chats");
  const std::vector<ChatMessage> turns{
      {"user", "hello", {}}, {"assistant", "hi", {}}, {"user", " and <s> now ", {}}};
  std::vector<ChatMessage> with_system = turns;
  with_system.insert(with_system.begin(), {"system", "be brief", {}});
  for (const char* name : {"chatml", "gemma", "llama3", "llama3_1", "qwen2", "qwen2_5"}) {
    const std::string both = corpus(std::string("config/") + name + "_chat.bin");
    outcomes.change_text(name, both.substr(both.find('\0') + 1), [&](const std::string& text) {
      const Result<ChatTemplate> chat = ChatTemplate::recognise(text, "t");
      if (!chat.ok()) return chat.error().message;
      std::string words;
      for (const auto& messages : {turns, with_system}) {
        const Result<std::string> said = chat->render(messages);
        words += (said.ok() ? *said : said.error().message) + " | ";
      }
      for (const std::string& end : chat->ends()) words += " " + end;
      return words;
    });
  }
  outcomes.require_as_kept();
}

TEST_CASE("each place of a file of weights that is changed is refused or read, as before") {
  test::Outcomes outcomes("weights");
  outcomes.change_bytes("two.safetensors", bytes_of(corpus("safetensors/two.safetensors")),
                        [](const test::Outcomes::Bytes& bytes) {
                          const auto file = SafetensorsFile::parse(bytes, "s");
                          if (!file.ok()) return file.error().message;
                          std::string words;
                          for (const auto& [name, view] : file->tensors()) {
                            const Result<Tensor> tensor = file->load(name);
                            words += std::to_string(name.size()) + " letters: " +
                                     (tensor.ok() ? tensor->describe() : tensor.error().message) +
                                     "; ";
                          }
                          return words;
                        });
  const std::string gguf = corpus("gguf/llama.gguf");
  // Its head, and the first of its facts.
  outcomes.change_bytes(
      "llama.gguf", bytes_of(gguf.substr(0, 256)), [&](const test::Outcomes::Bytes& head) {
        test::Outcomes::Bytes bytes = bytes_of(gguf);
        if (head.size() < 256) bytes.resize(head.size());
        std::copy_n(head.begin(), std::min<std::size_t>(head.size(), 256), bytes.begin());
        const auto file = GgufFile::parse(bytes, "g");
        if (!file.ok()) return file.error().message;
        const auto made = gguf_architecture(*file);
        return made.ok() ? text_of(*made) : made.error().message;
      });
  outcomes.require_as_kept();
}

TEST_CASE("each place of a picture's file that is changed is refused or read, as before") {
  test::Outcomes outcomes("picture_files");
  for (const char* name : {"grey.png", "palette4.png", "rgb_clear.png", "rgb16.png", "grey.jpg"})
    outcomes.change_bytes(name, bytes_of(corpus(std::string("image_file/") + name)),
                          [](const test::Outcomes::Bytes& bytes) {
                            const Result<Tensor> picture = decode_image(
                                {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
                            return picture.ok() ? picture->describe() : picture.error().message;
                          });
  for (const char* name : {"grey1.png", "grey2_interlaced.png", "grey.png", "grey_alpha16.png",
                           "palette4.png", "palette8_clear.png", "rgb.png", "rgb16.png",
                           "rgb_clear.png", "rgba.png", "rgba_interlaced.png"}) {
    const Result<Tensor> picture = decode_image(corpus(std::string("image_file/") + name));
    REQUIRE(picture.ok());
    outcomes.add("values", std::string(name) + ": " + picture->describe() + " " +
                               std::to_string(crc32c(picture->bytes())));
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
