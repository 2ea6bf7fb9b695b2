#include "engine/checkpoint/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/directories.h"

namespace sluice {
namespace {

/// Header length, header, data: as the format wants it, or with a length of the caller's.
std::string file_of(const std::string& header, const std::string& data,
                    std::uint64_t length = UINT64_MAX) {
  if (length == UINT64_MAX) length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

Result<SafetensorsFile> parse(const std::string& file) {
  return SafetensorsFile::parse(std::as_bytes(std::span(file)), "x.safetensors");
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_CASE("a sound file gives names, shapes and values without copying") {
  const std::vector<float> values{1, -2, 3.5F};
  std::string data(reinterpret_cast<const char*>(values.data()), 12);
  data += "\x01\x02";
  const std::string file = file_of(
      R"({"__metadata__":{"by":"us"},"a":)" + entry("F32", "[3]", "[0,12]") + R"(,"b":)" +
          entry("U8", "[2,1]", "[12,14]") + R"(,"none":)" + entry("F32", "[0]", "[14,14]") + "}",
      data);
  const Result<SafetensorsFile> read = parse(file);
  REQUIRE(read.ok());
  CHECK(read->tensors().size() == 3);
  CHECK(read->find("__metadata__") == nullptr);
  REQUIRE(read->find("b") != nullptr);
  CHECK(read->find("b")->shape == std::vector<std::int64_t>{2, 1});
  CHECK(reinterpret_cast<const char*>(read->find("b")->bytes.data()) ==
        file.data() + file.size() - 2);
  const Result<Tensor> a = read->load("a");
  REQUIRE(a.ok());
  CHECK(std::vector<float>(a->f32().begin(), a->f32().end()) == values);
  CHECK(read->load("none")->empty());
  CHECK(read->load("c").error().code == ErrorCode::not_found);
}

TEST_CASE("every hostile file is refused and the message says why") {
  struct Row {
    std::string file;
    std::string why;
  };
  const std::string sound = entry("F32", "[2]", "[0,8]");
  const std::string data(8, 'x');
  const auto one = [&](const std::string& tensor) {
    return file_of("{\"a\":" + tensor + "}", data);
  };
  const std::vector<Row> rows{
      {"", "shorter than"},
      {"1234567", "shorter than"},
      {file_of("{}", "", UINT64_MAX - 1), "the limit is"},
      {file_of("{}", "", 101ULL << 20), "the limit is"},
      {file_of("{}", "", 3), "the file has fewer"},
      {file_of("", ""), "not a JSON object"},
      {file_of("[1]", ""), "not a JSON object"},
      {file_of("{\"a\":", ""), "not a JSON object"},
      {file_of(std::string(100'000, '['), ""), "nested more than 64 deep"},
      {file_of("{\"a\":" + sound + ",\"a\":" + sound + "}", data), "stands twice"},
      {one("5"), "missing or of the wrong kind"},
      {one(R"({"dtype":"F32","shape":[2]})"), "missing or of the wrong kind"},
      {one(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"), "missing or of the wrong kind"},
      {one(entry("F32", "[2]", "[0,4,8]")), "missing or of the wrong kind"},
      {one(entry("F31", "[2]", "[0,8]")), "unknown dtype 'F31'"},
      {one(entry("F32", "[-2]", "[0,8]")), "not a whole number"},
      {one(entry("F32", "[2.5]", "[0,8]")), "not a whole number"},
      {one(entry("F32", "[18446744073709551615]", "[0,8]")), "not a whole number"},
      {one(entry("F32", "[4611686018427387904,4]", "[0,8]")), "overflows"},
      {one(entry("U8", "[1,1,1,1,1,1,1,1,8]", "[0,8]")), "more than 8 dimensions"},
      {one(entry("F32", "[3]", "[0,12]")), "leave the file's 8 data bytes"},
      {one(entry("F32", "[2]", "[8,0]")), "leave the file's"},
      {one(entry("F32", "[2]", "[-8,0]")), "not a whole number"},
      {one(entry("F32", "[1]", "[0,8]")), "shape and dtype need 4 bytes, the offsets give 8"},
      {file_of("{\"a\":" + sound + ",\"b\":" + entry("F32", "[1]", "[4,8]") + "}", data),
       "overlap"},
  };
  for (const Row& row : rows) {
    const Result<SafetensorsFile> read = parse(row.file);
    INFO(row.why);
    REQUIRE_FALSE(read.ok());
    CHECK_THAT(read.error().message, Catch::Contains(row.why));
    CHECK_THAT(read.error().message, Catch::Contains("x.safetensors"));
  }
}

TEST_CASE("a header nested deeper than any real one is refused before it takes memory") {
  const auto said = [](const std::string& header) {
    const auto read = parse(file_of(header, ""));
    return read.ok() ? std::string() : read.error().message;
  };
  const std::string deep =
      "x.safetensors: the header is nested more than 64 deep; no tensor's description is";
  CHECK(said(R"({"__metadata__":)" + std::string(64, '[') + std::string(64, ']') + "}") == deep);
  CHECK(said(std::string(std::size_t{4} << 20, '[')) == deep);
  CHECK(said(std::string(std::size_t{4} << 20, '{')) == deep);
  CHECK(said(R"({"__metadata__":)" + std::string(63, '[') + std::string(63, ']') + "}").empty());
  // Brackets in texts, and quotes in those, nest nothing.
  CHECK(said(R"({"__metadata__":{"a":"\"\\)" + std::string(99, '[') + R"("}})").empty());
}

TEST_CASE("no flip or cut of a sound file crashes the reader") {
  const std::string sound = file_of("{\"a\":" + entry("F32", "[2]", "[0,8]") + "}", "12345678");
  for (std::size_t i = 0; i < sound.size(); ++i) {
    CHECK_FALSE(parse(sound.substr(0, i)).ok());
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = sound;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const Result<SafetensorsFile> read = parse(flipped);
      if (read.ok()) CHECK(read->tensors().size() <= 1);
    }
  }
}

TEST_CASE("a sharded checkpoint reads like one file and cannot leave its directory") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(SLUICE_BINARY_DIR) / "sharded_test";
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  };
  write("1.safetensors", file_of("{\"a\":" + entry("U8", "[2]", "[0,2]") + "}", "ab"));
  write("2.safetensors", file_of("{\"b\":" + entry("U8", "[1]", "[0,1]") + "}", "c"));
  const std::string good =
      write("i.json", R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  const Result<SafetensorsFile> read = SafetensorsFile::open_index(good);
  REQUIRE(read.ok());
  CHECK(read->load("a")->u8()[1] == 'b');
  CHECK(read->load("b")->u8()[0] == 'c');
  for (const std::string map : {R"({"a":"2.safetensors"})", R"({"a":"../1.safetensors"})",
                                R"({"a":"3.safetensors"})", R"({"a":7})", "[]"})
    CHECK_FALSE(
        SafetensorsFile::open_index(write("bad.json", "{\"weight_map\":" + map + "}")).ok());
  // The files outside are there and sound: nothing but the rule keeps the index inside.
  const fs::path outside = fs::path(SLUICE_BINARY_DIR) / "sharded_test_outside";
  fs::create_directories(outside);
  fs::copy_file(folder / "1.safetensors", outside / "1.safetensors",
                fs::copy_options::overwrite_existing);
  fs::create_directories(folder / "below");
  fs::copy_file(folder / "1.safetensors", folder / "below" / "1.safetensors",
                fs::copy_options::overwrite_existing);
  for (const std::string& name :
       {std::string("../sharded_test_outside/1.safetensors"), (outside / "1.safetensors").string(),
        std::string("below/1.safetensors")}) {
    REQUIRE(SafetensorsFile::open(name.front() == '/' ? name : (folder / name).string()).ok());
    const Result<SafetensorsFile> left =
        SafetensorsFile::open_index(write("bad.json", R"({"weight_map":{"a":")" + name + "\"}}"));
    REQUIRE_FALSE(left.ok());
    CHECK_THAT(left.error().message, Catch::Contains("not a plain file name"));
  }
  CHECK(SafetensorsFile::open((folder / "absent").string()).error().code == ErrorCode::not_found);
  CHECK(SafetensorsFile::open(folder.string()).error().code == ErrorCode::corrupt);
}

}  // namespace
}  // namespace sluice
