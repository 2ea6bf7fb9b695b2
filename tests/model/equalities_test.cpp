// What must not change a result: the batch, the pages, the pieces of a prompt, who else is there.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/random.h"
#include "engine/policy/flow_policy.h"
#include "golden.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

using Tokens = std::vector<std::int32_t>;
constexpr double rounding = 3e-6;

double distance(std::span<const float> got, std::span<const float> want) {
  REQUIRE(got.size() == want.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / size);
}

Model open(const std::string& family, kernels::WeightFormat format) {
  return std::move(Model::open(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + family, format))
      .value();
}

Tokens random_tokens(std::size_t count, std::size_t vocabulary, std::uint64_t seed) {
  SplitMix64 random(seed);
  Tokens tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.next() % vocabulary);
  return tokens;
}

/// Writes tokens to a sequence in pieces of the given sizes; the last piece's hidden rows.
std::vector<float> write(const Decoder& text, KvPool& pool, KvSequence& sequence,
                         const Tokens& tokens, const std::vector<std::size_t>& pieces) {
  std::vector<float> hidden;
  std::size_t at = 0;
  for (const std::size_t piece : pieces) {
    std::vector<float> rows;
    text.embed(std::span(tokens).subspan(at, piece), rows);
    const Chunk chunk{&sequence, rows};
    REQUIRE(text.forward(pool, {&chunk, 1}, hidden).ok());
    at += piece;
  }
  REQUIRE(at == tokens.size());
  return {hidden.end() - static_cast<std::ptrdiff_t>(text.width()), hidden.end()};
}

const std::pair<const char*, kernels::WeightFormat> models[] = {
    {"llama", kernels::WeightFormat::exact},
    {"qwen2", kernels::WeightFormat::exact},
    {"gemma", kernels::WeightFormat::exact},
    {"llama", kernels::WeightFormat::bf16}};

}  // namespace

TEST_CASE("any batch is a batch of one: mixed lengths and decode steps in one forward") {
  for (const auto& [family, format] : models) {
    const Model model = open(family, format);
    const Decoder& text = model.text();
    const std::size_t vocabulary = text.shape().vocabulary;
    KvPool pool(text.kv_shape(4), 400);
    const std::size_t lengths[] = {1, 9, 30, 2, 64, 5};
    std::vector<KvSequence> alone(6), together(6);
    std::vector<std::vector<float>> want, rows(6);
    std::vector<Chunk> chunks;
    for (std::size_t i = 0; i < 6; ++i) {
      const Tokens tokens = random_tokens(lengths[i], vocabulary, i);
      // Half of them have a past already.
      if (i % 2 == 1) {
        const Tokens past = random_tokens(7, vocabulary, 100 + i);
        write(text, pool, alone[i], past, {7});
        write(text, pool, together[i], past, {7});
      }
      want.push_back(write(text, pool, alone[i], tokens, {tokens.size()}));
      text.embed(tokens, rows[i]);
    }
    for (std::size_t i = 0; i < 6; ++i) chunks.push_back({&together[i], rows[i]});
    std::vector<float> hidden;
    REQUIRE(text.forward(pool, chunks, hidden).ok());
    std::size_t at = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      at += lengths[i] * text.width();
      INFO(family << " sequence " << i);
      const double limit = format == kernels::WeightFormat::exact ? rounding : 5e-3;
      CHECK(distance(std::span(hidden).subspan(at - text.width(), text.width()), want[i]) < limit);
    }
  }
}

TEST_CASE(
    "a prompt in pieces is the prompt at once, whatever the pages; resumed is uninterrupted") {
  for (const char* family : {"llama", "gemma"}) {
    const Model model = open(family, kernels::WeightFormat::exact);
    const Decoder& text = model.text();
    const Tokens tokens = random_tokens(37, text.shape().vocabulary, 5);
    std::vector<float> want;
    for (const std::size_t page : {1U, 3U, 16U, 64U}) {
      KvPool pool(text.kv_shape(page), 400);
      KvSequence whole;
      const std::vector<float> once = write(text, pool, whole, tokens, {37});
      if (want.empty()) want = once;
      CHECK(once == want);  // bitwise: pages change no sum
      for (const std::vector<std::size_t>& pieces : {std::vector<std::size_t>{1, 36},
                                                     {36, 1},
                                                     {5, 8, 24},
                                                     std::vector<std::size_t>(37, 1)}) {
        KvSequence sequence;
        CHECK(distance(write(text, pool, sequence, tokens, pieces), want) < rounding);
        // Forgotten and written again from any point.
        pool.truncate(sequence, 20);
        const Tokens rest(tokens.begin() + 20, tokens.end());
        CHECK(distance(write(text, pool, sequence, rest, {17}), want) < rounding);
      }
    }
  }
}

TEST_CASE("keys stored before RoPE give what keys stored after it give, and may be moved") {
  for (const char* family : {"llama", "llama3", "gemma", "smollm3"}) {
    INFO(family);
    const Model model = open(family, kernels::WeightFormat::exact);
    const Decoder& text = model.text();
    const Tokens tokens = random_tokens(23, text.shape().vocabulary, 9);
    KvShape raw_shape = text.kv_shape(4);
    raw_shape.keys_before_rope = true;
    KvPool rotated(text.kv_shape(4), 100), raw(raw_shape, 100);
    KvSequence a, b;
    const std::vector<float> want = write(text, rotated, a, tokens, {10, 12, 1});
    CHECK(distance(write(text, raw, b, tokens, {10, 12, 1}), want) < rounding);
    raw.truncate(b, 15);
    CHECK(b.positions.size() == 15);
    const Tokens rest(tokens.begin() + 15, tokens.end());
    CHECK(distance(write(text, raw, b, rest, {8}), want) < rounding);

    // The same prefix seven places on, with a token behind it: as if computed there.
    const std::int32_t moved = 7;
    std::vector<float> rows, hidden, there, here;
    const std::int32_t next = 5;
    text.embed({&next, 1}, rows);
    const auto step = [&](KvPool& pool, KvSequence& sequence, std::vector<float>& out) {
      const Position place = Position::at(23 + moved);
      const Chunk chunk{&sequence, rows, Mask::causal, {}, {&place, 1}};
      REQUIRE(text.forward(pool, {&chunk, 1}, out).ok());
      pool.truncate(sequence, 23);
    };
    KvSequence c;
    std::vector<float> prompt;
    text.embed(tokens, prompt);
    std::vector<Position> places;
    for (std::int32_t i = 0; i < 23; ++i) places.push_back(Position::at(i + moved));
    const Chunk whole{&c, prompt, Mask::causal, {}, places};
    REQUIRE(text.forward(rotated, {&whole, 1}, hidden).ok());
    step(rotated, c, there);
    step(raw, b, here);
    CHECK(distance(here, there) > 1e-3);  // not moved yet
    for (Position& place : b.positions) place = Position::at(place.t + moved);
    step(raw, b, here);
    CHECK(distance(here, there) < rounding);
  }
}

TEST_CASE("robots that act together act as alone, and their prefixes stay") {
  const Model model = open("pi05", kernels::WeightFormat::exact);
  const FlowPolicy policy = std::move(FlowPolicy::load(model)).value();
  KvPool pool(policy.kv_shape(4), 200);
  std::vector<KvSequence> prefixes(3);
  std::vector<ActionRequest> requests;
  std::vector<std::vector<float>> alone;
  const std::size_t picture = 3 * 28 * 28;
  for (std::size_t i = 0; i < 3; ++i) {
    SplitMix64 random(i);
    std::vector<float> pixels(picture * (i + 1));  // one, two, three cameras
    for (float& v : pixels) v = static_cast<float>(random.normal()) * 0.5F;
    const Tokens tokens = random_tokens(3 + 4 * i, 512, i);
    const Observation observation{pixels, tokens};
    const std::vector<float> rows = std::move(policy.embed(observation)).value();
    const std::size_t pictures = policy.picture_rows(observation);
    REQUIRE(policy.prefill(pool, prefixes[i], rows, pictures, nullptr).ok());
    // The same when the trunk's last layer is finished too.
    KvSequence whole;
    std::vector<float> hidden;
    REQUIRE(policy.prefill(pool, whole, rows, pictures, &hidden).ok());
    for (std::size_t layer = 0; layer < pool.shape().layers; ++layer)
      for (std::size_t page = 0; page < whole.pages().size(); ++page) {
        const std::size_t rows_here = std::min<std::size_t>(4, whole.tokens() - 4 * page);
        CHECK(std::equal(pool.keys(whole.pages()[page], layer),
                         pool.keys(whole.pages()[page], layer) + rows_here * pool.shape().row,
                         pool.keys(prefixes[i].pages()[page], layer)));
      }
    ActionRequest request{&prefixes[i], std::vector<float>(6 * 32)};
    for (float& v : request.x) v = static_cast<float>(random.normal());
    ActionRequest copy = request;
    const std::size_t before = prefixes[i].tokens();
    REQUIRE(policy.act(pool, {&copy, 1}, {10, 1.0F}).ok());
    CHECK(prefixes[i].tokens() == before);
    alone.push_back(copy.x);
    requests.push_back(std::move(request));
  }
  REQUIRE(policy.act(pool, requests, {10, 1.0F}).ok());
  for (std::size_t i = 0; i < 3; ++i) CHECK(distance(requests[i].x, alone[i]) < 2e-5);
  // A warm start of one step is another result, and a legal one.
  REQUIRE(policy.act(pool, requests, {1, 0.5F}).ok());
  CHECK(distance(requests[0].x, alone[0]) > 1e-3);
  requests[0].x.pop_back();
  const Result<void> short_noise = policy.act(pool, requests, {10, 1.0F});
  REQUIRE_FALSE(short_noise.ok());
  CHECK(short_noise.error().message == "the noise must be 6 x 32");
}

TEST_CASE("wrong inputs are named") {
  const Model llama = open("llama", kernels::WeightFormat::exact);
  std::span<const float> features;
  std::span<const Grid> grids;
  const Tokens outside{3, 128};
  const auto wrong = llama.prompt(outside, features, grids);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().message == "token 128 at 1 is outside the vocabulary of 128");
  const Model qwen = open("qwen2_5_vl", kernels::WeightFormat::exact);
  const Tokens pictures{149, 151, 151, 150};
  const auto lonely = qwen.prompt(pictures, features, grids);
  REQUIRE_FALSE(lonely.ok());
  CHECK(lonely.error().message == "there are more pictures in the tokens than in image_grid_thw");
  const std::vector<float> patches(1176 * 3);
  const Grid odd{1, 3, 1};
  CHECK_FALSE(qwen.features(patches, {&odd, 1}).ok());
  const Result<Architecture> unknown = Architecture::parse(R"({"model_type": "bert"})", "c");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.starts_with("c: 'model_type' is 'bert'; supported are llama, "));
  const Result<Architecture> heads = Architecture::parse(
      R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 3, "intermediate_size": 8})",
      "c");
  REQUIRE_FALSE(heads.ok());
  CHECK(heads.error().message == "c: 'num_key_value_heads' must divide num_attention_heads");
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/vae/config.json");
  nlohmann::json vae = nlohmann::json::parse(file);
  vae["up_block_types"][0] = "AttnUpDecoderBlock2D";  // the others are right
  const Result<Architecture> blocks = Architecture::parse(vae.dump(), "c");
  REQUIRE_FALSE(blocks.ok());
  CHECK(blocks.error().message ==
        "c: 'up_block_types' must be 3 times 'UpDecoderBlock2D'; others are not supported");
}
