// Keys and values in bf16: half the bytes, every stage within what rounding them costs, and
// nobody's answer depends on who else is there.
#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "engine/layers/decoder.h"
#include "golden.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

/// Relative L2 of a stage with keys and values in bf16, which hold 8 bits of a number.
constexpr double narrow_limit = 1e-2;
/// Of what an action expert makes of them in several steps.
constexpr double policy_limit = 2.5e-2;

double distance(std::span<const float> got, std::span<const float> want) {
  REQUIRE(got.size() == want.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / size);
}

Model open(const std::string& family) {
  return std::move(Model::open(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + family)).value();
}

std::vector<float> rows_of(const Model& model, std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(random.next() % model.text().shape().vocabulary));
  std::vector<float> rows;
  model.text().embed(tokens, rows);
  return rows;
}

/// The last row's hidden values.
std::vector<float> write(const Model& model, KvPool& pool, KvSequence& sequence,
                         std::span<const float> rows) {
  const Chunk chunk{&sequence, rows};
  std::vector<float> hidden;
  REQUIRE(model.text().forward(pool, {&chunk, 1}, hidden).ok());
  return {hidden.end() - static_cast<std::ptrdiff_t>(model.text().width()), hidden.end()};
}

}  // namespace

TEST_CASE(
    "every stage of every family with a cache in bf16 is near the reference, and not in f32") {
  for (const char* family : {"llama", "llama3", "qwen2", "gemma", "smollm3", "paligemma",
                             "qwen2_5_vl", "smolvlm", "pi05", "pi0", "openvla", "smolvla"}) {
    const golden::Case golden(family);
    const Architecture architecture = golden.architecture();
    const double limit = architecture.action.has_value() ? policy_limit : narrow_limit;
    double most = 0;
    for (const auto& [stage, error] : golden.errors(golden.run(architecture, Dtype::bf16))) {
      INFO(family << " " << stage << " " << error);
      CHECK(error <= limit);
      most = std::max(most, error);
    }
    INFO(family);
    CHECK(most > golden::limit);
  }
}

TEST_CASE("a page in bf16 takes half the bytes, and has a key of its own") {
  const Model model = open("qwen2");
  const KvShape wide = model.text().kv_shape(4), narrow = model.text().kv_shape(4, Dtype::bf16);
  CHECK(2 * narrow.page_bytes() == wide.page_bytes());
  std::vector<std::int32_t> tokens(13);
  std::iota(tokens.begin(), tokens.end(), 0);
  const RowsOrigin origin{.model = "qwen2", .picture_token = {}, .pictures = {}};
  const auto in_f32 = KvPages(wide, 8).keys_of(origin, tokens);
  const auto in_bf16 = KvPages(narrow, 8).keys_of(origin, tokens);
  REQUIRE(in_f32.size() == 3);
  REQUIRE(in_bf16.size() == 3);
  for (const PageKey& key : in_bf16) CHECK(std::ranges::count(in_f32, key) == 0);
}

TEST_CASE("a cache in bf16: pieces and pages change no bit, forks and neighbours no answer") {
  for (const char* family : {"llama", "gemma"}) {
    const Model model = open(family);
    const std::size_t width = model.text().width();
    const std::vector<float> prompt = rows_of(model, 37, 5);
    std::vector<float> want;
    for (const std::size_t page : {1U, 3U, 16U, 64U}) {
      KvPool pool(model.text().kv_shape(page, Dtype::bf16), 400);
      KvSequence whole, pieces;
      const std::vector<float> once = write(model, pool, whole, prompt);
      if (want.empty()) want = once;
      CHECK(once == want);
      (void)write(model, pool, pieces, std::span(prompt).first(20 * width));
      CHECK(distance(write(model, pool, pieces, std::span(prompt).subspan(20 * width)), want) <
            narrow_limit);
    }
    // Two that go on from the same rows, beside each other: a shared page is copied whole.
    KvPool pool(model.text().kv_shape(16, Dtype::bf16), 40);
    KvSequence first, alone[2];
    (void)write(model, pool, first, prompt);
    std::vector<float> more[2], apart[2];
    for (std::size_t i : {0U, 1U}) {
      more[i] = rows_of(model, 5, 50 + i);
      (void)write(model, pool, alone[i], prompt);
      apart[i] = write(model, pool, alone[i], more[i]);
    }
    KvSequence second = pool.fork(first);
    const Chunk both[] = {{&first, more[0]}, {&second, more[1]}};
    std::vector<float> hidden;
    REQUIRE(model.text().forward(pool, both, hidden).ok());
    for (std::size_t i : {0U, 1U})
      CHECK(distance(std::span(hidden).subspan((5 * i + 4) * width, width), apart[i]) <
            narrow_limit);
    std::vector<float> keys[2], values[2];
    for (std::size_t i : {0U, 1U}) {
      keys[i].resize(37 * pool.shape().row);
      values[i].resize(37 * pool.shape().row);
      pool.read(i == 0 ? first : second, 1, keys[i], values[i]);
    }
    CHECK(keys[0] == keys[1]);
    CHECK(values[0] == values[1]);
  }
}
