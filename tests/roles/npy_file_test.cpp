#include "roles/npy_file.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "base/file.h"
#include "tests/directories.h"

namespace sluice {
namespace {

using Shape = std::vector<std::int64_t>;

/// Files of numpy.save (NumPy 2.4), beside what the fuzzer begins with.
std::string stored(const std::string& name) {
  return read_whole_file(SLUICE_SOURCE_DIR + std::string("/tests/fuzz/corpus/npy/") + name, 1 << 20)
      .value();
}

template <typename T>
std::vector<T> numbers(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes_size());
  return values;
}

std::string file_of(const std::string& header, const std::string& data = "") {
  std::string file = "\x93NUMPY";
  file += {'\x01', '\x00', static_cast<char>(header.size() & 255U),
           static_cast<char>(header.size() >> 8U)};
  return file + header + data;
}

void refused(const std::string& file, ErrorCode code, const std::string& words) {
  const Result<Tensor> tensor = decode_npy(file);
  REQUIRE(!tensor.ok());
  CAPTURE(tensor.error().message);
  CHECK(tensor.error().code == code);
  CHECK(tensor.error().message.find(words) != std::string::npos);
}

TEST_CASE("What NumPy wrote is read as it was") {
  const Tensor f32 = decode_npy(stored("f32.npy")).value();
  CHECK(f32.describe() == "f32[2, 3]");
  CHECK(numbers<float>(f32) == std::vector<float>{0, 0.25F, 0.5F, 0.75F, 1, 1.25F});
  const Tensor i64 = decode_npy(stored("i64.npy")).value();
  CHECK(i64.dtype() == Dtype::i64);
  CHECK(numbers<std::int64_t>(i64) == std::vector<std::int64_t>{-1, 2, std::int64_t{1} << 40});
  const Tensor u8 = decode_npy(stored("u8.npy")).value();
  CHECK(u8.describe() == "u8[2, 2, 3]");
  CHECK(numbers<std::uint8_t>(u8)[11] == 11);
  const Tensor scalar = decode_npy(stored("i32.npy")).value();
  CHECK(scalar.shape().empty());
  CHECK(numbers<std::int32_t>(scalar) == std::vector<std::int32_t>{-7});
  CHECK(decode_npy(stored("empty.npy")).value().shape() == Shape{0, 4});
  for (const char* name : {"version2.npy", "version3.npy"})
    CHECK(numbers<float>(decode_npy(stored(name)).value()) == std::vector<float>{1.5F, -2});
  // One dimension lies the same in either order.
  const Tensor row =
      decode_npy(file_of("{'descr':'|u1','fortran_order':True,'shape':(2,)}", "ab")).value();
  CHECK(numbers<std::uint8_t>(row) == std::vector<std::uint8_t>{'a', 'b'});
}

TEST_CASE("What is written has NumPy's own bytes") {
  for (const char* name : {"f32.npy", "i64.npy", "u8.npy", "i32.npy", "empty.npy"}) {
    CAPTURE(name);
    CHECK(encode_npy(decode_npy(stored(name)).value()) == stored(name));
  }
}

TEST_CASE("A bf16 tensor is written as the f32 numbers it holds") {
  Tensor tensor = Tensor::zeros(Dtype::bf16, {3}).value();
  const std::vector<float> values{1.5F, -2, 0x1p-120F};
  for (std::size_t i = 0; i < 3; ++i) tensor.bf16()[i] = bf16_from_f32(values[i]);
  const Tensor read = decode_npy(encode_npy(tensor)).value();
  CHECK(read.describe() == "f32[3]");
  CHECK(numbers<float>(read) == values);
}

TEST_CASE("Numbers and orders that a tensor does not have are named, with what helps") {
  refused(stored("fortran.npy"), ErrorCode::invalid_argument, "ascontiguousarray");
  refused(stored("f64.npy"), ErrorCode::invalid_argument, "'<f8'");
  refused(stored("half.npy"), ErrorCode::invalid_argument, "'<f2'");
  refused(stored("bool.npy"), ErrorCode::invalid_argument, "'|b1'");
  refused(stored("big_endian.npy"), ErrorCode::invalid_argument, "big-endian");
  refused(stored("records.npy"), ErrorCode::invalid_argument, "several fields");
  refused("GIF89a", ErrorCode::invalid_argument, "no .npy file");
  refused(stored("f32.npy").replace(6, 1, 1, '\x07'), ErrorCode::invalid_argument, "version 7");
  refused(file_of("{'descr':'|u1','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1)}", "x"),
          ErrorCode::invalid_argument, "8 dimensions");
}

TEST_CASE("A file that ends too soon is refused wherever it ends, and so is one with more") {
  const std::string whole = stored("f32.npy");
  for (std::size_t length = 6; length < whole.size(); ++length)
    refused(whole.substr(0, length), ErrorCode::corrupt, "damaged");
  refused(whole + "x", ErrorCode::corrupt, "24 bytes, there are 25");
}

TEST_CASE("A header that asks for more than the file holds allocates nothing") {
  const std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  refused(file_of(head + "(1000000000, 1000), }", "abcd"), ErrorCode::corrupt, "there are 4");
  refused(file_of(head + "(9223372036854775807, 4), }", "abcd"), ErrorCode::corrupt, "there are 4");
  refused(file_of(head + "(9223372036854775807, 9223372036854775807, 0), }"), ErrorCode::corrupt,
          "there are 0");
  refused(file_of(head + "(-1,), }"), ErrorCode::corrupt, "cannot be read");
  refused(file_of(head + "(99999999999999999999,), }"), ErrorCode::corrupt, "cannot be read");
  std::string long_header = stored("version2.npy");
  long_header[11] = '\x7f';
  refused(long_header, ErrorCode::corrupt, "the limit is 65536");
}

TEST_CASE("A header is as long as the limit and no longer") {
  const auto file = [](std::size_t length) {
    std::string header = "{'descr':'|u1','fortran_order':False,'shape':(1,)}";
    header.resize(length, ' ');
    const std::string bytes{static_cast<char>(length & 255U),
                            static_cast<char>(length >> 8U & 255U),
                            static_cast<char>(length >> 16U), '\0'};
    return std::string("\x93NUMPY\x02") + '\0' + bytes + header + "x";
  };
  CHECK(decode_npy(file(65536)).value().describe() == "u8[1]");
  refused(file(65537), ErrorCode::corrupt, "its header has 65537 bytes, the limit is 65536");
}

TEST_CASE("A word of the file is shown up to forty characters") {
  const auto file = [](std::size_t length) {
    return file_of("{'descr': '" + std::string(length, 'q') + "\x7f'}");
  };
  refused(file(39), ErrorCode::invalid_argument, "'" + std::string(39, 'q') + "?'");
  refused(file(40), ErrorCode::invalid_argument, "'" + std::string(40, 'q') + "...'");
}

TEST_CASE("A header without all its parts, or with others, is refused") {
  refused(file_of("{}"), ErrorCode::corrupt, "lacks");
  refused(file_of("{'descr': '<f4', 'shape': (0,)}"), ErrorCode::corrupt, "lacks");
  refused(file_of("{'descr': '<f4', 'descr': '<f4'}"), ErrorCode::corrupt, "'descr'");
  refused(file_of("{'other': 1}"), ErrorCode::corrupt, "'other'");
  refused(file_of("{'descr': '<f4'"), ErrorCode::corrupt, "cannot be read");
  refused(file_of("{'fortran_order': Maybe}"), ErrorCode::corrupt, "cannot be read");
  refused(file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (0,)} more"),
          ErrorCode::corrupt, "cannot be read");
}

}  // namespace
}  // namespace sluice
