// Limits of the base, at exactly each and one past it, and the words of what is refused.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/byte_size.h"
#include "base/crc32c.h"
#include "base/nearest.h"
#include "base/payload.h"
#include "base/random.h"
#include "base/tensor.h"
#include "base/utf8.h"

using namespace sluice;

TEST_CASE("a number of bytes is read with each unit, up to 2^62") {
  const std::pair<const char*, std::uint64_t> sizes[] = {
      {"0", 0},
      {"7", 7},
      {"3KiB", 3072},
      {"5MiB", 5242880},
      {"2GiB", 2147483648},
      {"1TiB", 1099511627776},
      {"4611686018427387904", std::uint64_t{1} << 62U},
      {"4503599627370496KiB", std::uint64_t{1} << 62U},
      {"4398046511104MiB", std::uint64_t{1} << 62U},
      {"4294967296GiB", std::uint64_t{1} << 62U},
      {"4194304TiB", std::uint64_t{1} << 62U},
  };
  for (const auto& [text, bytes] : sizes) {
    INFO(text);
    CHECK(parse_byte_size(text) == bytes);
  }
  for (const char* wrong :
       {"", "KiB", "-1", "+1", "1 KiB", "1KB", "1kib", "1KiBs", "1.5GiB", "0x10", "1Ki",
        "4611686018427387905", "4503599627370497KiB", "4398046511105MiB", "4294967297GiB",
        "4194305TiB", "99999999999999999999"}) {
    INFO(wrong);
    CHECK_FALSE(parse_byte_size(wrong).has_value());
  }
}

TEST_CASE("a distance between names counts letters changed, left out, added and exchanged") {
  const std::tuple<const char*, const char*, std::size_t> pairs[] = {
      {"", "", 0},       {"a", "", 1},        {"abc", "abc", 0},        {"abc", "abd", 1},
      {"abc", "xbc", 1}, {"abc", "ab", 1},    {"abc", "bc", 1},         {"abc", "abcd", 1},
      {"ab", "ba", 1},   {"xab", "xba", 1},   {"abx", "bax", 1},        {"ba", "abc", 2},
      {"ca", "abc", 3},  {"abcd", "badc", 2}, {"kitten", "sitting", 3}, {"abcdef", "fedcba", 5},
      {"aa", "a", 1},    {"aba", "bab", 2},
  };
  for (const auto& [a, b, distance] : pairs) {
    INFO(a << " and " << b);
    CHECK(edit_distance(a, b) == distance);
    CHECK(edit_distance(b, a) == distance);
  }
  CHECK(nearest_name("", {"a"}).empty());
  CHECK(nearest_name("a", {"b"}) == "b");  // one letter may always be wrong
  CHECK(nearest_name("a", {"bc"}).empty());
  CHECK(nearest_name("abcdef", {"abxxxf", "abcdxy", "abcdex"}) == "abcdex");
  CHECK(nearest_name("abcdef", {"abcdey", "abcdex"}) == "abcdey");  // of equal ones the first
  CHECK(nearest_name("abcdefghi", {"abcdefxyz"}) == "abcdefxyz");
  CHECK(nearest_name("abcdefgh", {"abcdexyz"}).empty());
  const std::string most(64, 'a'), more(65, 'a');
  CHECK(nearest_name(most, {most}) == most);
  CHECK(nearest_name(more, {more}).empty());
  CHECK(nearest_name(most, {more}).empty());
}

TEST_CASE("what a tensor is refused for is said with its numbers") {
  const auto said = [](Dtype dtype, std::vector<std::int64_t> shape) {
    return Tensor::zeros(dtype, std::move(shape)).error().message;
  };
  CHECK(said(Dtype::u8, std::vector<std::int64_t>(9, 1)) ==
        "tensor of 9 dimensions, at most 8 are allowed");
  CHECK(said(Dtype::u8, {2, -3}) == "negative dimension -3");
  CHECK(said(Dtype::u8, {std::int64_t{1} << 62, 2}) == "tensor shape overflows 64 bits");
  CHECK(said(Dtype::i64, {std::int64_t{1} << 61}) == "tensor size overflows 64 bits");
  CHECK(Tensor::bytes_of(Dtype::i64, {std::int64_t{1} << 60}).value() == std::uint64_t{1} << 63U);
  CHECK(Tensor::zeros(Dtype::u8, {100}, 99).error().message ==
        "tensor of 100 bytes, the limit is 99");
  CHECK(Tensor::zeros(Dtype::u8, {100}, 100)->bytes_size() == 100);
  CHECK(Tensor::over(Dtype::i32, {2}, Buffer::zeros(7)).error().message ==
        "a tensor of 8 bytes over 7");
  CHECK(Tensor::over(Dtype::i32, {2}, Ref<Buffer>()).error().message ==
        "a tensor of 8 bytes over 0");
  CHECK(Tensor::over(Dtype::i32, {0, 2}, Ref<Buffer>()).value().count() == 0);
}

TEST_CASE("a tensor's type has its name, its size and its values") {
  const std::tuple<Dtype, const char*, std::size_t> types[] = {{Dtype::u8, "u8", 1},
                                                               {Dtype::bf16, "bf16", 2},
                                                               {Dtype::i32, "i32", 4},
                                                               {Dtype::f32, "f32", 4},
                                                               {Dtype::i64, "i64", 8}};
  for (const auto& [dtype, name, bytes] : types) {
    CHECK(to_string(dtype) == name);
    CHECK(size_of(dtype) == bytes);
    const Tensor made = Tensor::zeros(dtype, {2, 3}).value();
    CHECK(made.describe() == std::string(name) + "[2, 3]");
    CHECK(made.bytes_size() == 6 * bytes);
    CHECK(made.count() == 6);
  }
  CHECK(Tensor::zeros(Dtype::u8, {}).value().describe() == "u8[]");
  CHECK(Tensor::zeros(Dtype::u8, {5}).value().describe() == "u8[5]");
  Tensor made = Tensor::zeros(Dtype::bf16, {3}).value();
  made.bf16()[2] = 7;
  CHECK(std::as_const(made).bf16()[2] == 7);
  CHECK(made.bf16().size() == 3);
  Tensor numbers = Tensor::zeros(Dtype::i32, {2}).value();
  numbers.i32()[1] = -4;
  CHECK(std::as_const(numbers).i32()[1] == -4);
  const Tensor floats = Tensor::of_f32({2}, {1.5F, -2});
  CHECK(floats.f32()[0] == 1.5F);
  CHECK(floats.f32()[1] == -2);
  CHECK(Tensor::of_f32({0}, {}).empty());
}

TEST_CASE("what is no number in bf16 stays none, whatever bits it has") {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0x7fc00000U}) {
    const std::uint16_t narrow = bf16_from_f32(std::bit_cast<float>(bits));
    CHECK((narrow & 0x7f80U) == 0x7f80U);
    CHECK((narrow & 0x007fU) != 0);
    CHECK((narrow >> 15U) == (bits >> 31U));
  }
  CHECK(bf16_from_f32(std::numeric_limits<float>::infinity()) == 0x7f80);
  CHECK(bf16_from_f32(std::numeric_limits<float>::max()) == 0x7f80);  // rounded
}

TEST_CASE("base64 of every letter and every byte, and nothing that is none of it") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (std::size_t from = 0; from < 3; ++from) {
    const std::string part = bytes.substr(from);
    const std::string text = base64_encode(part);
    CHECK(text.size() == (part.size() + 2) / 3 * 4);
    CHECK(base64_decode(text) == part);
  }
  CHECK(base64_encode(std::string("\x00\x10\x83", 3)) == "ABCD");
  CHECK(base64_encode("\xfb\xff\xfe") == "+//+");
  CHECK(base64_encode("f") == "Zg==");
  CHECK(base64_encode("fo") == "Zm8=");
  CHECK(base64_encode("").empty());
  CHECK(base64_decode("")->empty());
  CHECK(base64_decode("Zg==") == "f");
  CHECK(base64_decode("Zm8=") == "fo");
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int c = 0; c < 256; ++c) {
    CAPTURE(c);
    const std::string text = std::string("AA") + static_cast<char>(c) + "A";
    CHECK(base64_decode(text).has_value() ==
          (letters.find(static_cast<char>(c)) != std::string::npos));
  }
  for (const char* wrong : {"Zg=", "Zg", "Z===", "Zg=A", "=AAA", "A=AA", "Zg==AAAA", "AAAA="})
    CHECK_FALSE(base64_decode(wrong).has_value());
}

TEST_CASE("a payload is what it was made of") {
  CHECK(make_text("t")->type == ValueType::text);
  CHECK(make_json("{}")->type == ValueType::json);
  CHECK(make_bytes("b")->type == ValueType::bytes);
  CHECK(make_bytes("b")->text == "b");
  CHECK(make_number(-4)->type == ValueType::number);
  CHECK(make_number(-4)->number == -4);
  const PayloadRef image = make_image(Tensor::zeros(Dtype::u8, {1, 2, 3}).value());
  CHECK(image->type == ValueType::image);
  CHECK(image->tensor.describe() == "u8[1, 2, 3]");
  const PayloadRef tensor = make_tensor(Tensor::of_f32({1}, {2}), {{"a", 1}, {"b", 2}, {"a", 3}});
  CHECK(tensor->type == ValueType::tensor);
  CHECK(tensor->tensor.f32()[0] == 2);
  CHECK(tensor->attribute("a") == 1);
  CHECK(tensor->attribute("b") == 2);
  CHECK_FALSE(tensor->attribute("c").has_value());
}

/// All that this processor has.
std::vector<Crc32cBy> ways() {
  std::vector<Crc32cBy> there;
  for (auto by = Crc32cBy::table; by <= crc32c_quickest();
       by = static_cast<Crc32cBy>(static_cast<int>(by) + 1))
    there.push_back(by);
  return there;
}

TEST_CASE("CRC-32C gives the published sums, in each way") {
  for (const Crc32cBy by : ways()) {
    CAPTURE(static_cast<int>(by));
    const auto of = [&](const std::string& text) {
      return crc32c(std::as_bytes(std::span(text)), 0, by);
    };
    CHECK(of("123456789") == 0xe3069283U);
    CHECK(of("") == 0);
    // Source: RFC 3720, B.4.
    CHECK(of(std::string(32, '\0')) == 0x8a9136aaU);
    CHECK(of(std::string(32, '\xff')) == 0x62a8ab43U);
    std::string up, down;
    for (int i = 0; i < 32; ++i) {
      up += static_cast<char>(i);
      down += static_cast<char>(31 - i);
    }
    CHECK(of(up) == 0x46dd794eU);
    CHECK(of(down) == 0x113fdb5cU);
  }
}

TEST_CASE("CRC-32C is the same in each way, for all lengths and places in memory") {
  SplitMix64 random(2);
  std::vector<std::byte> bytes((1U << 20U) + 3 + 64);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  std::vector<std::byte> copy(bytes.size());
  const auto is_same = [&](std::size_t at, std::size_t size, Crc32cBy by) {
    const auto part = std::span<const std::byte>(bytes).subspan(at, size);
    std::ranges::fill(std::span(copy).first(at + size + 1), std::byte{0});
    const std::uint32_t sum = crc32c(part, 0, Crc32cBy::table);
    const std::size_t cut = size * 3 / 7;
    return crc32c(part, 0, by) == sum &&
           crc32c(part.subspan(cut), crc32c(part.first(cut), 0, by), by) == sum &&
           copy_with_crc32c(part, copy.data() + at, by) == sum &&
           std::ranges::equal(part, std::span(copy).subspan(at, size)) &&
           copy[at + size] == std::byte{0};
  };
  // To whole rows of the cache's, where large copies go past it.
  const std::size_t row = (64 - reinterpret_cast<std::uintptr_t>(copy.data()) % 64) % 64;
  for (const Crc32cBy by : ways()) {
    CAPTURE(static_cast<int>(by));
    for (std::size_t size = 0; size <= 1100; ++size) {
      CAPTURE(size);
      CHECK(is_same(0, size, by));
      CHECK(is_same(1 + size % 63, size, by));
    }
    // Around the lanes that the instruction sums at once.
    for (const std::size_t size : {3071, 3072, 3073, 3080, 4099, 6143, 6144, 9217, 49152, 98305}) {
      CAPTURE(size);
      CHECK(is_same(1, size, by));
    }
    for (const std::size_t at : {0, 1, 8, 63}) CHECK(is_same(at, (1U << 20U) + 3, by));
    for (const std::size_t size : {32'767, 32'768, 32'769, 65'536, 65'599, 1'048'579}) {
      CAPTURE(size);
      CHECK(is_same(row, size, by));
    }
  }
}
