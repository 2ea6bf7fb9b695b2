#include "kernels/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "base/random.h"
#include "kernels/elementwise.h"
#include "tests/kernels/paths.h"

namespace sluice::kernels {
namespace {

std::vector<float> random_floats(std::size_t count, SplitMix64& random) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

TEST_CASE("pages to rows and back, with a last page that is not full") {
  SplitMix64 random(1);
  const std::size_t width = 5, page_tokens = 4, tokens = 10;
  const std::vector<float> rows = random_floats(tokens * width, random);
  std::vector<std::vector<float>> store(3, std::vector<float>(page_tokens * width, -1));
  const std::vector<float*> pages{store[2].data(), store[0].data(), store[1].data()};
  rows_to_pages_cpu(rows, page_tokens, width, pages);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < width; ++i)
      CHECK(pages[t / page_tokens][t % page_tokens * width + i] == rows[t * width + i]);
  CHECK(pages[2][2 * width] == -1);  // behind the last row nothing was touched
  std::vector<float> back(rows.size());
  pages_to_rows_cpu(std::vector<const float*>(pages.begin(), pages.end()), page_tokens, width,
                    back);
  CHECK(back == rows);
  std::vector<float> ring = rows;
  shift_rows_cpu(ring, width, 3);
  CHECK(std::equal(ring.begin(), ring.end() - 3 * width, rows.begin() + 3 * width));
  shift_rows_cpu(ring, width, 99);  // more than there are: nothing to move
}

TEST_CASE("keys rotated on use are keys rotated when stored") {
  SLUICE_EACH_PATH;
  SplitMix64 random(2);
  const HeadShape shape{3, 2, 12};
  const std::size_t count = 7;
  const std::vector<float> qkv = random_floats(count * shape.row(), random);
  const std::vector<float> cosine = random_floats(count * 6, random);
  const std::vector<float> sine = random_floats(count * 6, random);
  std::vector<float> q(count * 36), stored(count * 24), raw(count * 24), values(count * 24);
  const auto run = [&](std::vector<float>& keys, bool rotated) {
    std::vector<float*> k, v;
    for (std::size_t i = 0; i < count; ++i) {
      k.push_back(&keys[i * 24]);
      v.push_back(&values[i * 24]);
    }
    const std::span<const float> none;
    split_rotate_ref(shape, qkv, rotated ? cosine : none, rotated ? sine : none, q, k, v);
  };
  run(stored, true);
  run(raw, false);
  rotate_keys_cpu(raw, 2, 12, cosine, sine);
  for (std::size_t i = 0; i < raw.size(); ++i) CHECK(raw[i] == Approx(stored[i]).margin(1e-6));
}

TEST_CASE("a picture in patches, normalised") {
  const std::vector<std::uint8_t> picture{0,  255, 51, 10, 20, 30, 40, 50, 60, 70, 80, 90,
                                          1,  2,   3,  4,  5,  6,  7,  8,  9,  11, 12, 13,
                                          14, 15,  16, 17, 18, 19, 21, 22, 23, 24, 25, 26,
                                          27, 28,  29, 31, 32, 33, 34, 35, 36, 37, 38, 39};
  const std::vector<float> mean{0.5F, 0.25F, 0.1F}, deviation{0.5F, 0.2F, 0.1F};
  std::vector<float> patches(48);
  cut_normalised_cpu(picture, 4, 2, mean, deviation, patches);
  CHECK(patches[0] == Approx(-1));                         // the first pixel's red
  CHECK(patches[4] == Approx((1 - 0.25) / 0.2));           // its green
  CHECK(patches[8] == Approx((0.2 - 0.1) / 0.1));          // its blue
  CHECK(patches[2] == Approx((1.0 / 255 - 0.5) / 0.5));    // below it, red
  CHECK(patches[12] == Approx((40.0 / 255 - 0.5) / 0.5));  // the next patch
}

}  // namespace
}  // namespace sluice::kernels
