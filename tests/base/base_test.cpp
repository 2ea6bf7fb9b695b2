#include <sys/stat.h>

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/base64.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/payload.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/sha256_blocks.h"
#include "base/tensor.h"
#include "base/utf8.h"
#include "tests/directories.h"

using namespace sluice;

TEST_CASE("a tensor's size is computed without overflow, and limits are kept") {
  CHECK(Tensor::zeros(Dtype::f32, {3, 4})->bytes_size() == 48);
  CHECK(Tensor::zeros(Dtype::f32, {0, 4})->empty());
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK(!Tensor::zeros(Dtype::u8, {huge, 4}).ok());
  CHECK(Tensor::zeros(Dtype::u8, std::vector<std::int64_t>(Tensor::rank_max, 1)).ok());
  CHECK(!Tensor::zeros(Dtype::u8, std::vector<std::int64_t>(Tensor::rank_max + 1, 1)).ok());
  CHECK(!Tensor::zeros(Dtype::i64, {huge}).ok());
  CHECK(!Tensor::zeros(Dtype::u8, {-1}).ok());
  CHECK(!Tensor::zeros(Dtype::u8, std::vector<std::int64_t>(9, 1)).ok());
  CHECK(Tensor::zeros(Dtype::u8, {100}, 99).error().code == ErrorCode::exhausted);
}

TEST_CASE("characters are those of RFC 3629: none too long, no surrogates, none past the last") {
  const std::pair<const char*, std::size_t> characters[] = {
      {"a", 1},
      {"\xc2\x80", 2},
      {"\xc1\xbf", 0},
      {"\xe0\xa0\x80", 3},
      {"\xe0\x9f\xbf", 0},
      {"\xed\x9f\xbf", 3},
      {"\xed\xa0\x80", 0},
      {"\xee\x80\x80", 3},
      {"\xf0\x90\x80\x80", 4},
      {"\xf0\x8f\xbf\xbf", 0},
      {"\xf4\x8f\xbf\xbf", 4},
      {"\xf4\x90\x80\x80", 0},
      {"\xf5\x80\x80\x80", 0},
      {"\x80", 0},
      {"\xe2\x82", 0},
      {"\xe2\x82\x28", 0},
  };
  for (const auto& [text, length] : characters) CHECK(utf8_length(text) == length);
  CHECK(utf8_length(std::string_view()) == 0);
  CHECK(utf8_length(std::string_view("\0", 1)) == 1);
}

TEST_CASE("every type of a value has a name, and no other name is a type") {
  for (const ValueType type :
       {ValueType::any, ValueType::json, ValueType::text, ValueType::image, ValueType::audio,
        ValueType::tensor, ValueType::number, ValueType::bytes})
    CHECK(value_type_from(to_string(type)) == type);
  for (const char* name : {"", "Text", "texts", "picture"}) CHECK(!value_type_from(name));
}

TEST_CASE("bf16 rounds to the nearest, ties to even, for every value and its neighbours") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float exact = f32_from_bf16(static_cast<std::uint16_t>(bits));
    if (std::isnan(exact)) {
      REQUIRE(std::isnan(f32_from_bf16(bf16_from_f32(exact))));
      continue;
    }
    REQUIRE(bf16_from_f32(exact) == bits);
    if ((bits & 0x7fffU) >= 0x7f7fU) continue;  // the next one is infinity
    const auto wide = bits << 16;
    REQUIRE(bf16_from_f32(std::bit_cast<float>(wide + 0x7fffU)) == bits);
    REQUIRE(bf16_from_f32(std::bit_cast<float>(wide + 0x8001U)) == bits + 1);
    REQUIRE(bf16_from_f32(std::bit_cast<float>(wide + 0x8000U)) == bits + (bits & 1U));
  }
}

TEST_CASE("f16 widens to the value that its bits say, for each of the 65,536") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = f32_from_f16(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10U & 31U);
    const double fraction = bits & 1023U;
    INFO(bits);
    if (exponent == 31 && fraction != 0) {
      REQUIRE(std::isnan(got));
      continue;
    }
    const double size = exponent == 31  ? std::numeric_limits<double>::infinity()
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    REQUIRE(std::signbit(got) == (bits >> 15U != 0));
    REQUIRE(double{std::abs(got)} == size);
  }
}

TEST_CASE("a file is read whole, and what is no file is an error, never a wait") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(SLUICE_BINARY_DIR) / "file_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string bytes(70'000, '\0');
  std::ofstream(folder / "some", std::ios::binary) << bytes << "end";
  const auto read = [&](const char* name, std::size_t most) {
    return read_whole_file((folder / name).string(), most);
  };
  CHECK(read("some", 70'003).value() == bytes + "end");
  const Result<std::string> longer = read("some", 70'002);
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.error().code == ErrorCode::exhausted);
  CHECK_THAT(longer.error().message, Catch::Contains("70003") && Catch::Contains("70002"));
  std::ofstream(folder / "none");
  CHECK(read("none", 0).value().empty());
  CHECK(read("absent", 9).error().code == ErrorCode::not_found);
  CHECK(read("some/below", 9).error().code == ErrorCode::not_found);
  CHECK(read(".", 9).error().code == ErrorCode::invalid_argument);
  CHECK_THAT(read(".", 9).error().message, Catch::Contains("this is a folder, not a file"));
  // Whoever may not enter a folder does not know what is in it; a circle of links says so to root.
  fs::create_symlink("round", folder / "round");
  const auto there = [&](const char* name) { return is_there((folder / name).string()); };
  CHECK(there("some").value());
  CHECK(there(".").value());
  CHECK_FALSE(there("absent").value());
  CHECK_FALSE(there("some/below").value());
  REQUIRE_FALSE(there("round/below").ok());
  CHECK_THAT(there("round/below").error().message,
             Catch::Contains("round/below: cannot be read: "));
  CHECK(there("round/below").error().message == read("round/below", 9).error().message);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(read("pipe", 9).error().message, Catch::Contains("not a regular file"));
}

TEST_CASE("a payload lives as long as its last reference") {
  PayloadRef a = make_text("hello");
  CHECK(a->references() == 1);
  {
    const PayloadRef b = a;
    CHECK(a->references() == 2);
  }
  PayloadRef c = std::move(a);
  CHECK(!a);
  CHECK(c->references() == 1);
  CHECK(make_tensor(Tensor(), {{"n", 3}})->attribute("n") == 3);
  CHECK(!make_number(4)->attribute("n").has_value());
}

TEST_CASE("base64 round-trips every length and refuses what is not base64") {
  std::string bytes;
  for (int i = 0; i < 70; ++i) {
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
    bytes += static_cast<char>(i * 37);
  }
  CHECK(base64_encode("any carnal pleas") == "YW55IGNhcm5hbCBwbGVhcw==");
  for (const char* wrong : {"A", "AAA", "AA=A", "A===", "====", "AA A", "AAA\n", "AAA=AAAA"})
    CHECK(!base64_decode(wrong).has_value());
}

TEST_CASE("the nearest name is near or nothing") {
  CHECK(edit_distance("abcd", "abdc") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(nearest_name("embd", {"embed", "parse"}) == "embed");
  CHECK(nearest_name("zzz", {"embed", "parse"}).empty());
  // A third of the name may be wrong, and no more.
  CHECK(nearest_name("abcdef", {"abcdxy"}) == "abcdxy");
  CHECK(nearest_name("abcdef", {"abcxyz"}).empty());
  CHECK(nearest_name("ab", {"xb"}) == "xb");
  CHECK(nearest_name("ab", {"xy"}).empty());
  // Another case of its letters is nearer than any other letter.
  CHECK(nearest_name("ABCD", {"abce", "abcd"}) == "abcd");
}

TEST_CASE("the random stream is the published one") {
  SplitMix64 random(1234567);
  CHECK(random.next() == 6457827717110365317ULL);
  CHECK(random.next() == 3203168211198807973ULL);
}

TEST_CASE("SHA-256 gives the digests of FIPS 180-4's examples, and of every block edge") {
  CHECK(sha256_prefix("") == 0xe3b0c44298fc1c14ULL);
  CHECK(sha256_prefix("abc") == 0xba7816bf8f01cfeaULL);
  CHECK(sha256_prefix("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        0x248d6a61d20638b8ULL);
  CHECK(sha256_prefix(std::string(1'000'000, 'a')) == 0xcdc76e5c9914fb92ULL);
  CHECK(sha256(std::string(64, 'a'))[0] == 0xff);
}

TEST_CASE("SHA-256 by the processor's instructions is what portable code computes") {
  if (!has_sha_instructions()) {
    std::fputs("not tested: SHA instructions, which this processor lacks\n", stderr);
    return;
  }
  Sha256State portable{1, 2, 3, 4, 5, 6, 7, 8};
  Sha256State instructions = portable;
  SplitMix64 random(7);
  std::array<unsigned char, 67> block;
  for (int round = 0; round < 1000; ++round) {
    for (unsigned char& byte : block) byte = static_cast<unsigned char>(random.next());
    const unsigned char* unaligned = block.data() + round % 4;
    sha256_block_portable(portable, unaligned);
    sha256_block_instructions(instructions, unaligned);
    REQUIRE(portable == instructions);
  }
}

TEST_CASE("SHA-256's portable code gives the published digest") {
  // "abc" and its padding. Source: FIPS 180-4's examples.
  std::array<unsigned char, 64> block{'a', 'b', 'c', 0x80};
  block[63] = 24;
  Sha256State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  sha256_block_portable(state, block.data());
  CHECK(state == Sha256State{0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223, 0xb00361a3, 0x96177a9c,
                             0xb410ff61, 0xf20015ad});
}
