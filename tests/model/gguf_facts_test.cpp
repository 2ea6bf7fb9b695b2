// What a GGUF file says of a model, a fact and a tensor at a time: the architecture and the names
// of its tensors, beside what they were.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/family/gguf_model.h"
#include "engine/text/gguf_tokenizer.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

using Fact = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>,
                          std::vector<float>, std::vector<std::uint32_t>>;

/// A file of F32 tensors, or of others by number.
struct GgufText {
  struct Matrix {
    std::vector<std::uint64_t> shape;  // the innermost first, as it stands in the file
    std::uint32_t type = 0;
    std::vector<float> values;  // none: zeros
  };
  std::map<std::string, Fact> facts;
  std::map<std::string, Matrix> tensors;

  std::string text() const {
    std::string made = "GGUF";
    put(made, std::uint32_t{3});
    put(made, std::uint64_t{tensors.size()});
    put(made, std::uint64_t{facts.size()});
    for (const auto& [key, fact] : facts) {
      name(made, key);
      std::visit([&](const auto& value) { value_of(made, value); }, fact);
    }
    std::uint64_t offset = 0;
    for (const auto& [called, matrix] : tensors) {
      name(made, called);
      put(made, static_cast<std::uint32_t>(matrix.shape.size()));
      for (const std::uint64_t size : matrix.shape) put(made, size);
      put(made, matrix.type);
      put(made, offset);
      offset += (bytes_of(matrix) + 31) / 32 * 32;
    }
    made.resize((made.size() + 31) / 32 * 32);
    for (const auto& [called, matrix] : tensors) {
      const std::size_t at = made.size();
      for (const float value : matrix.values) put(made, value);
      made.resize(at + (bytes_of(matrix) + 31) / 32 * 32);
    }
    return made;
  }

 private:
  static std::uint64_t bytes_of(const Matrix& matrix) {
    std::uint64_t values = 1;
    for (const std::uint64_t size : matrix.shape) values *= size;
    return matrix.type == 8 ? values / 32 * 34 : matrix.type == 1 ? values * 2 : values * 4;
  }
  template <typename T>
  static void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void name(std::string& to, const std::string& text) {
    put(to, std::uint64_t{text.size()});
    to += text;
  }
  static void value_of(std::string& to, std::uint32_t value) {
    put(to, std::uint32_t{4});
    put(to, value);
  }
  static void value_of(std::string& to, float value) {
    put(to, std::uint32_t{6});
    put(to, value);
  }
  static void value_of(std::string& to, bool value) {
    put(to, std::uint32_t{7});
    put(to, static_cast<std::uint8_t>(value));
  }
  static void value_of(std::string& to, const std::string& value) {
    put(to, std::uint32_t{8});
    name(to, value);
  }
  template <typename T>
  static void value_of(std::string& to, const std::vector<T>& list) {
    put(to, std::uint32_t{9});
    std::string each;
    std::uint32_t type = 0;
    for (const T& one : list) {
      std::string alone;
      value_of(alone, one);
      std::memcpy(&type, alone.data(), sizeof type);
      each += alone.substr(sizeof type);
    }
    put(to, type);
    put(to, std::uint64_t{list.size()});
    to += each;
  }
};

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g ", value);
  return text;
}

std::string words(const Architecture& a) {
  const DecoderShape& d = *a.text;
  const BlockShape& b = d.block;
  std::string text = std::string(to_string(a.family)) + ": ";
  for (const double value : {double(b.width),
                             double(b.heads),
                             double(b.kv_heads),
                             double(b.head_dim),
                             double(b.mlp),
                             double(b.norm),
                             double(b.eps),
                             double(b.norm_plus_one),
                             double(b.activation),
                             double(b.gated),
                             double(b.qkv_bias),
                             double(b.out_bias),
                             double(b.mlp_bias),
                             double(d.layers),
                             double(d.vocabulary),
                             double(d.positions_max),
                             double(d.embedding_scale),
                             double(d.tied),
                             double(d.head),
                             d.rope.theta,
                             double(d.rope.scaling),
                             d.rope.factor})
    text += show(value);
  for (const float divisor : d.rope.divisors) text += "/ " + show(double{divisor});
  return text;
}

std::string words(const GgufFile& file, const Architecture& architecture) {
  const Result<SafetensorsFile> made = gguf_tensors(file, architecture);
  if (!made.ok()) return std::string(to_string(made.error().code)) + ", " + made.error().message;
  std::string text;
  for (const auto& [name, view] : made->tensors()) {
    text += name + " " + view.dtype + (view.in_place ? " in place " : " ") +
            std::to_string(view.interleaved);
    for (const std::int64_t size : view.shape) text += " x" + std::to_string(size);
    text += '\n';
  }
  return text;
}

GgufText sound(const std::string& kind) {
  GgufText made;
  made.facts = {{"general.architecture", kind},
                {kind + ".embedding_length", 64U},
                {kind + ".block_count", 2U},
                {kind + ".attention.head_count", 4U},
                {kind + ".attention.head_count_kv", 2U},
                {kind + ".feed_forward_length", 96U},
                {kind + ".context_length", 128U},
                {kind + ".attention.layer_norm_rms_epsilon", 1e-5F}};
  made.tensors = {{"token_embd.weight", {{64, 10}, 0, {}}}};
  return made;
}

void read(test::Outcomes& outcomes, const std::string& title, const GgufText& made) {
  const std::string text = made.text();
  const Result<GgufFile> file = GgufFile::parse(std::as_bytes(std::span(text)), "file");
  if (!file.ok()) return outcomes.add(title, "not parsed: " + file.error().message);
  const Result<Architecture> architecture = gguf_architecture(*file);
  if (!architecture.ok())
    return outcomes.add(title, std::string(to_string(architecture.error().code)) + ", " +
                                   architecture.error().message);
  outcomes.add(title, words(*architecture));
  outcomes.add(title, words(*file, *architecture));
}

/// What is wrong with what the file says of the model; empty: nothing.
std::string problem(const GgufText& made) {
  const std::string text = made.text();
  const Result<GgufFile> file = GgufFile::parse(std::as_bytes(std::span(text)), "file");
  if (!file.ok()) return "not parsed: " + file.error().message;
  const Result<Architecture> architecture = gguf_architecture(*file);
  return architecture.ok() ? "" : architecture.error().message;
}

}  // namespace

TEST_CASE("tensors of blocks that a GGUF file does not count are refused, other unread ones not") {
  GgufText made = sound("llama");
  for (int block = 0; block < 2; ++block)
    made.tensors["blk." + std::to_string(block) + ".attn_norm.weight"] = {{64}, 0, {}};
  for (const char* name : {"blk.attn_norm.weight", "blk.x.weight", "blk.9x.weight", "blk.9",
                           "blk.-9.weight", "xblk.9.weight", "block.9.weight", "other.weight"})
    made.tensors[name] = {{64}, 0, {}};
  CHECK(problem(made) == "");
  made.facts["llama.block_count"] = 1U;
  CHECK(problem(made) ==
        "file: llama.block_count is 1, but the file has tensors of 2 blocks "
        "(blk.1.attn_norm.weight)");
  for (const char* name : {"blk.9.ffn_up.weight", "blk.29.ffn_up.weight", "blk.29.attn_q.weight"})
    made.tensors[name] = {{64}, 0, {}};
  made.facts["llama.block_count"] = 7U;
  CHECK(problem(made) ==
        "file: llama.block_count is 7, but the file has tensors of 30 blocks "
        "(blk.29.attn_q.weight)");
  made.facts["llama.block_count"] = 30U;
  CHECK(problem(made) == "");
}

TEST_CASE("a number of a GGUF file that is NaN or infinite is refused by its key") {
  for (const std::string kind : {"llama", "qwen2", "gemma"})
    for (const std::string key :
         {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor"}) {
      GgufText made = sound(kind);
      made.facts[kind + ".rope.scaling.type"] = std::string("linear");
      const std::string name = kind + "." + key;
      for (const float value : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
        made.facts[name] = value;
        CHECK(problem(made) == "file: " + name + " is " + (std::isnan(value) ? "NaN" : "infinite") +
                                   "; it must be a number above 0");
      }
      made.facts[name] = 0.5F;
      CHECK(problem(made) == "");
    }
}

TEST_CASE("what is wrong with a model of a GGUF file is told in the file's own keys") {
  for (const std::string kind : {"llama", "qwen2"}) {
    const auto told = [&](const std::string& key, const Fact& fact) {
      GgufText made = sound(kind);
      made.facts[kind + "." + key] = fact;
      return problem(made);
    };
    const std::string file = "file: '" + kind + ".";
    CHECK(told("attention.head_count_kv", 3U) ==
          file + "attention.head_count_kv' must divide " + kind + ".attention.head_count");
    CHECK(told("embedding_length", 0U) ==
          file + "embedding_length' must be a whole number from 1 to 65536");
    CHECK(told("attention.layer_norm_rms_epsilon", -1.0F) ==
          file + "attention.layer_norm_rms_epsilon' must be above 0");
    CHECK(told("attention.key_length", 3U) == file + "attention.key_length' must be even");
    CHECK(told("embedding_length", 12U) == file +
                                               "attention.key_length' must be even; without it "
                                               "each head has " +
                                               kind + ".embedding_length / " + kind +
                                               ".attention.head_count");
    GgufText none = sound(kind);
    none.facts.erase(kind + ".feed_forward_length");
    CHECK(problem(none) == "file: the metadata of " + kind + " does not tell '" + kind +
                               ".feed_forward_length', or not as one number");
  }
}

TEST_CASE("each fact of a GGUF file that is another is refused or read, as before") {
  test::Outcomes outcomes("gguf_facts");
  for (const std::string kind : {"llama", "qwen2", "gemma"}) {
    read(outcomes, kind, sound(kind));
    const std::string at = kind + ".";
    for (const char* key :
         {"embedding_length", "block_count", "attention.head_count", "attention.head_count_kv",
          "feed_forward_length", "context_length", "attention.layer_norm_rms_epsilon",
          "attention.key_length", "rope.freq_base", "expert_count", "attention.sliding_window",
          "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor"}) {
      GgufText without = sound(kind);
      without.facts.erase(at + key);
      read(outcomes, kind + " " + key, without);
      for (const Fact& fact :
           std::vector<Fact>{0U, 1U, 2U, 3U, 16U, 32U, 64U, 0.0F, 0.5F, 10000.0F, -1.0F, true,
                             std::string("none"), std::string("linear"), std::string("yarn"),
                             std::vector<std::uint32_t>{1, 2}}) {
        GgufText other = sound(kind);
        other.facts[at + key] = fact;
        read(outcomes, kind + " " + key, other);
      }
    }
    for (const Fact& factor :
         std::vector<Fact>{0U, 4U, 0.0F, 0.25F, -2.0F, std::nanf(""), std::string("2")})
      for (const char* type : {"linear", "none"}) {
        GgufText scaled = sound(kind);
        scaled.facts[at + "rope.scaling.type"] = std::string(type);
        scaled.facts[at + "rope.scaling.factor"] = factor;
        read(outcomes, kind + " scaled", scaled);
      }
    for (const Fact& count : std::vector<Fact>{0U, 1U, 2U, std::string("2")}) {
      GgufText split = sound(kind);
      split.facts["split.count"] = count;
      read(outcomes, kind + " split", split);
    }
  }
  for (const char* kind : {"", "mamba", "llama2", "lla"}) {
    GgufText other = sound("llama");
    other.facts["general.architecture"] = std::string(kind);
    read(outcomes, "kinds", other);
  }
  outcomes.require_as_kept();
}

TEST_CASE("each tensor of a GGUF file has its name and shape in a model, as before") {
  test::Outcomes outcomes("gguf_tensors");
  for (const std::string kind : {"llama", "qwen2", "gemma"}) {
    for (const char* name : {"output.weight",
                             "output_norm.weight",
                             "output_norm",
                             "blk.0.attn_q.bias",
                             "blk.0.attn_output.bias",
                             "blk.0.ffn_up.bias",
                             "blk.1.attn_q.bias",
                             "blk.1.attn_k.weight",
                             "blk.12.attn_v.weight",
                             "blk.0.ffn_gate.weight",
                             "blk.0.ffn_down.weight",
                             "blk.0.ffn_norm.weight",
                             "blk.0.attn_norm.weight",
                             "blk.0.other.weight",
                             "blk.attn_q.x",
                             "blk..attn_q.weight",
                             "blk0.attn_q.weight",
                             "blk.x",
                             "xyz.0.attn_q.weight",
                             "a.b",
                             "token_embd.bias"})
      for (const std::vector<std::uint64_t>& shape :
           std::vector<std::vector<std::uint64_t>>{{64}, {64, 64}, {64, 24}, {32, 16}, {32, 16, 2}})
        for (const std::uint32_t type : {0U, 1U, 8U}) {
          GgufText made = sound(kind);
          made.tensors[name] = {shape, type, {}};
          read(outcomes, kind + " " + name, made);
        }
    for (const std::vector<float>& values :
         std::vector<std::vector<float>>{{1, 2, 4, 8, 1, 1, 1, 0.5F},
                                         {1, 2, 4, 0, 1, 1, 1, 1},
                                         {1, 1, 1, 1, 1, 1, 1, -1},
                                         {1, 1, 1, 1, 1, 1, std::nanf(""), 1},
                                         {1, 1, 1, 1, 1, 1, 1},
                                         {}})
      for (const std::uint32_t type : {0U, 1U}) {
        GgufText made = sound(kind);
        made.tensors["rope_freqs.weight"] = {{values.empty() ? 8 : values.size()}, type, values};
        read(outcomes, kind + " factors", made);
      }
    GgufText matrix = sound(kind);
    matrix.tensors["rope_freqs.weight"] = {{8, 1}, 0, std::vector<float>(8, 1.0F)};
    read(outcomes, kind + " factors", matrix);
    for (const std::vector<std::uint64_t>& shape :
         std::vector<std::vector<std::uint64_t>>{{64}, {64, 10, 1}, {32, 10}}) {
      GgufText embedding = sound(kind);
      embedding.tensors["token_embd.weight"] = {shape, 0, {}};
      read(outcomes, kind + " embedding", embedding);
    }
    GgufText none = sound(kind);
    none.tensors.clear();
    read(outcomes, kind + " embedding", none);
  }
  outcomes.require_as_kept();
}

TEST_CASE("each fact of a GGUF file's tokenizer is refused or used, as before") {
  test::Outcomes outcomes("gguf_tokenizers");
  using Texts = std::vector<std::string>;
  const std::vector<std::pair<std::string, std::vector<Fact>>> others{
      {"tokenizer.ggml.pre",
       {std::string("gpt-2"), std::string("smollm"), std::string("llama-bpe"),
        std::string("llama3"), std::string("llama-v3"), std::string("qwen2"),
        std::string("deepseek-r1-qwen"), std::string("other"), std::string(""), 3U}},
      {"tokenizer.ggml.model",
       {std::string("gpt2"), std::string("llama"), std::string("bert"), 1U}},
      {"tokenizer.ggml.token_type",
       {std::vector<std::uint32_t>{1, 1, 1, 1, 3, 4, 2, 1, 1, 1},
        std::vector<std::uint32_t>{2, 2, 3, 1, 1, 1, 1, 1, 1, 1},
        std::vector<std::uint32_t>{4, 1, 1, 1, 1, 1, 5, 1, 1, 200}, std::vector<std::uint32_t>{1}}},
      {"tokenizer.ggml.merges", {Texts{"a b"}, Texts{"a b", "ab 1"}, Texts{"x"}, Texts{"a q"}}},
      {"tokenizer.ggml.scores",
       {std::vector<float>{0, 0, 0, -1, 0, 0, 0, -2, 0, -3},
        std::vector<float>{0, 0, 0, -3, 0, 0, 0, -2, 0, -1}, std::vector<float>{0}}},
      {"tokenizer.ggml.bos_token_id", {0U, 4U, 9U, 10U}},
      {"tokenizer.ggml.eos_token_id", {0U, 5U, 10U, (1U << 24U) - 1, 1U << 24U}},
      {"tokenizer.ggml.eot_token_id", {0U, 5U, (1U << 24U) - 1, 1U << 24U}},
      {"tokenizer.ggml.add_bos_token", {true, false}},
      {"tokenizer.ggml.add_eos_token", {true, false}},
      {"tokenizer.ggml.add_space_prefix", {true, false}},
      {"tokenizer.ggml.tokens", {Texts{}, Texts{"a", "a", "b"}, 1U}}};
  const auto encode = [&](const std::string& title, const GgufText& made) {
    const std::string text = made.text();
    const Result<GgufFile> file = GgufFile::parse(std::as_bytes(std::span(text)), "file");
    if (!file.ok()) return outcomes.add(title, "not parsed: " + file.error().message);
    std::string said = "ends";
    for (const std::int32_t end : gguf_end_tokens(*file)) said += ' ' + std::to_string(end);
    const Result<Tokenizer> tokenizer = gguf_tokenizer(*file);
    if (!tokenizer.ok()) return outcomes.add(title, said + "; " + tokenizer.error().message);
    for (const char* words : {"ab1 <e>", " ab  a11b'LL 1", "q\xe2\x96\x81<b>\n\na", "A\xcc\x8a"}) {
      for (const bool special : {false, true}) {
        const auto ids = tokenizer->encode(words, special);
        said += special ? " | " : "; ";
        for (const std::int32_t id : ids) said += std::to_string(id) + ' ';
        said += "'" + tokenizer->decode(ids, special) + "'";
      }
    }
    outcomes.add(title, said);
  };
  for (const std::string kind : {"gpt2", "llama"}) {
    GgufText sound;
    sound.facts = {
        {"tokenizer.ggml.model", kind},
        {"tokenizer.ggml.pre", std::string("gpt-2")},
        {"tokenizer.ggml.tokens",
         Texts{"a", "b", "1", "ab", "<b>", "<e>", "<u>", "\u2581a", "\u0120", "ab1"}},
        {"tokenizer.ggml.merges", Texts{"a b", "ab 1"}},
        {"tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, 0, 0, 0, -2, 0, -3}},
        {"tokenizer.ggml.token_type", std::vector<std::uint32_t>{1, 1, 1, 1, 3, 3, 2, 1, 1, 1}},
        {"tokenizer.ggml.bos_token_id", 4U},
        {"tokenizer.ggml.eos_token_id", 5U}};
    encode(kind, sound);
    for (const auto& [key, values] : others) {
      GgufText without = sound;
      without.facts.erase(key);
      encode(kind + " " + key, without);
      for (const Fact& value : values) {
        GgufText other = sound;
        other.facts[key] = value;
        encode(kind + " " + key, other);
        if (key == "tokenizer.ggml.add_bos_token" || key == "tokenizer.ggml.pre") continue;
        other.facts["tokenizer.ggml.pre"] = std::string("llama-bpe");
        encode(kind + " " + key + " of llama3", other);
      }
    }
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
