#include "engine/picture/image_file.h"

#include <turbojpeg.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>

#include "base/random.h"

namespace sluice {
namespace {

std::string be32(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255U);
  return bytes;
}

std::string chunk(const std::string& type, const std::string& body) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : type + body) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1U) != 0 ? crc >> 1 ^ 0xedb88320U : crc >> 1;
  }
  return be32(static_cast<std::uint32_t>(body.size())) + type + body + be32(~crc);
}

const std::string magic = "\x89PNG\r\n\x1a\n";

/// `rows` with their filter bytes, in one stored block.
std::string png(std::uint32_t width, std::uint32_t height, char depth, char colours,
                const std::string& rows, const std::string& extra = "") {
  const auto size = static_cast<unsigned>(rows.size());
  std::string data = "\x78\x01\x01";
  for (const unsigned half : {size, ~size & 0xffffU}) {
    data += static_cast<char>(half & 255U);
    data += static_cast<char>(half >> 8);
  }
  data += rows + std::string(4, '\0');
  return magic +
         chunk("IHDR", be32(width) + be32(height) + depth + colours + std::string(3, '\0')) +
         extra + chunk("IDAT", data) + chunk("IEND", "");
}

std::vector<int> pixel(const Tensor& image, std::size_t index) {
  const auto bytes = image.u8().subspan(index * 3, 3);
  return {bytes.begin(), bytes.end()};
}

Tensor picture(std::int64_t height, std::int64_t width) {
  Tensor image = std::move(Tensor::zeros(Dtype::u8, {height, width, 3})).value();
  SplitMix64 random(3);
  for (std::uint8_t& byte : image.u8()) byte = static_cast<std::uint8_t>(random.next());
  return image;
}

std::string jpeg(const Tensor& image, int format = TJPF_RGB) {
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  tjhandle encoder = tjInitCompress();
  const int channels = tjPixelSize[format];
  const std::vector<unsigned char> pixels(
      static_cast<std::size_t>(image.dim(0) * image.dim(1) * channels), 200);
  const unsigned char* from = format == TJPF_RGB ? image.u8().data() : pixels.data();
  REQUIRE(tjCompress2(encoder, from, static_cast<int>(image.dim(1)), 0,
                      static_cast<int>(image.dim(0)), format, &bytes, &size, TJSAMP_444, 95,
                      0) == 0);
  std::string file(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return file;
}

std::string with_orientation(const std::string& file, char orientation, bool little = false) {
  std::string exif =
      little ? std::string("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 24)
             : std::string("Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 25);
  exif += std::string(1, orientation) + std::string(little ? 7 : 6, '\0');
  const auto size = static_cast<char>(exif.size() + 2);
  return file.substr(0, 2) + "\xff\xe1" + std::string(1, '\0') + size + exif + file.substr(2);
}

void check_refused(const std::string& file, const std::string& why) {
  const Result<Tensor> read = decode_image(file);
  INFO(why);
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(read.error().message, Catch::Contains(why));
}

TEST_CASE("a PNG written and read again holds the same pixels") {
  const Tensor image = picture(13, 7);
  const Result<Tensor> read = decode_image(encode_png(image));
  REQUIRE(read.ok());
  CHECK(read->shape() == image.shape());
  CHECK(std::ranges::equal(read->u8(), image.u8()));
}

TEST_CASE("grey, palette, 16 bit and transparent PNGs become RGB, with alpha over white") {
  using namespace std::string_literals;
  CHECK(pixel(*decode_image(png(1, 1, 8, 0, "\0\x40"s)), 0) == std::vector<int>{64, 64, 64});
  CHECK(pixel(*decode_image(png(2, 1, 1, 0, "\0\x40"s)), 1) == std::vector<int>{255, 255, 255});
  CHECK(pixel(*decode_image(png(1, 1, 8, 3, "\0\x01"s, chunk("PLTE", "abcdef"))), 0) ==
        std::vector<int>{'d', 'e', 'f'});
  CHECK(pixel(*decode_image(png(1, 1, 16, 2, "\0\x10\0\x20\0\x30\0"s)), 0) ==
        std::vector<int>{16, 32, 48});
  CHECK(pixel(*decode_image(png(2, 1, 8, 6, "\0\x0a\x14\x1e\0\x0a\x14\x1e\xff"s)), 0) ==
        std::vector<int>{255, 255, 255});
  CHECK(pixel(*decode_image(png(1, 1, 8, 6, "\0\0\x64\xff\x80"s)), 0) ==
        std::vector<int>{127, 177, 255});
}

TEST_CASE("a JPEG is read, turned upright by its orientation, and refused when cut short") {
  Tensor image = std::move(Tensor::zeros(Dtype::u8, {16, 32, 3})).value();
  for (std::size_t i = 0; i < 16 * 32; ++i) image.u8()[i * 3] = i % 32 < 16 ? 250 : 0;
  const std::string file = jpeg(image);
  const Result<Tensor> read = decode_image(file);
  REQUIRE(read.ok());
  CHECK(read->shape() == image.shape());
  CHECK(pixel(*read, 0)[0] > 240);
  CHECK(pixel(*read, 31)[0] < 10);
  const Result<Tensor> turned = decode_image(with_orientation(file, 6));
  REQUIRE(turned.ok());
  CHECK(turned->shape() == std::vector<std::int64_t>{32, 16, 3});
  CHECK(pixel(*turned, 0)[0] > 240);  // red on the left becomes red on top
  CHECK(pixel(*turned, 15)[0] > 240);
  CHECK(pixel(*turned, 31 * 16)[0] < 10);
  CHECK(pixel(*decode_image(with_orientation(file, 3)), 0)[0] < 10);
  CHECK(pixel(*decode_image(with_orientation(file, 8)), 0)[0] < 10);
  CHECK(decode_image(with_orientation(file, 99))->shape() == image.shape());
  // Memory is asked for once, for the picture as it comes out.
  for (const std::string& one : {file, with_orientation(file, 6), encode_png(image)}) {
    std::vector<const Buffer*> made;
    const Result<Tensor> there = decode_image(one, [&](std::vector<std::int64_t> shape) {
      Result<Tensor> tensor = Tensor::zeros(Dtype::u8, std::move(shape));
      std::ranges::fill(tensor->u8(), std::uint8_t{99});  // it may hold anything
      made.push_back(tensor->buffer().get());
      return tensor;
    });
    REQUIRE(there.ok());
    CHECK(made == std::vector<const Buffer*>{there->buffer().get()});
    const Result<Tensor> same = decode_image(one);
    CHECK(there->shape() == same->shape());
    CHECK(std::ranges::equal(std::as_const(*there).u8(), same->u8()));
  }
  const Result<Tensor> none = decode_image(file, [](const std::vector<std::int64_t>&) {
    return Result<Tensor>(Error{ErrorCode::exhausted, "there is no such memory"});
  });
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message == "there is no such memory");
  for (std::size_t size = 3; size < file.size() - 2; size += 7)
    CHECK_FALSE(decode_image(file.substr(0, size)).ok());
  check_refused(file.substr(0, file.size() / 2), "JPEG");
  check_refused(jpeg(image, TJPF_CMYK), "CMYK");
}

TEST_CASE("each of the eight orientations is the turn that it names") {
  // The first pixel of the upright picture, as (row, column) of the stored one of 16 x 32.
  const std::vector<std::pair<std::size_t, std::size_t>> first{{0, 0}, {0, 31}, {15, 31}, {15, 0},
                                                               {0, 0}, {15, 0}, {15, 31}, {0, 31}};
  for (std::size_t o = 1; o <= 8; ++o) {
    Tensor image = std::move(Tensor::zeros(Dtype::u8, {16, 32, 3})).value();
    const auto [row, column] = first[o - 1];
    for (std::size_t y = row / 8 * 8; y < row / 8 * 8 + 8; ++y)
      for (std::size_t x = column / 8 * 8; x < column / 8 * 8 + 8; ++x)
        for (std::size_t c = 0; c < 3; ++c) image.u8()[(y * 32 + x) * 3 + c] = 255;
    for (const bool little : {false, true}) {
      const Result<Tensor> turned =
          decode_image(with_orientation(jpeg(image), static_cast<char>(o), little));
      REQUIRE(turned.ok());
      INFO("orientation " << o << (little ? ", little-endian" : ", big-endian"));
      CHECK(pixel(*turned, 0)[0] > 200);
      CHECK(turned->dim(0) == (o >= 5 ? 32 : 16));
    }
  }
}

TEST_CASE("a JPEG whose header promises too many pixels is refused before it is decoded") {
  std::string file = jpeg(picture(16, 16));
  const std::size_t header = file.find("\xff\xc0");  // length, precision, height, width
  REQUIRE(header != std::string::npos);
  const auto promise = [&](unsigned height, unsigned width) {
    for (const auto& [at, value] : {std::pair{header + 5, height}, std::pair{header + 7, width}}) {
      file[at] = static_cast<char>(value >> 8);
      file[at + 1] = static_cast<char>(value & 255U);
    }
  };
  promise(20'000, 20'000);
  check_refused(file, "20000 x 20000");
  promise(16, 16'385);
  check_refused(file, "at most 16384 a side");
  promise(10'000, 10'000);
  check_refused(file, "64 megapixels");
}

TEST_CASE("a file in another format is refused with a word about what it is") {
  check_refused("", "it is empty");
  check_refused("GIF89a....", "it is a GIF");
  check_refused("a note to myself\n", "it is plain text");
  check_refused("BM123456", "BMP");
  check_refused(std::string("RIFF\x01\x02\x03\x04WEBPVP8 ", 16), "it is a WebP");
  check_refused(std::string("\x7f"
                            "ELF\x02\x01\0\0",
                            8),
                "no format known here");
}

TEST_CASE("a file that ends within the bytes of its format is of that format, and truncated") {
  check_refused("\xff\xd8", "the JPEG is truncated");
  for (std::size_t size = 2; size <= magic.size(); ++size)
    check_refused(magic.substr(0, size), "the PNG is truncated");
  for (const char* other : {"\x89P-", "\xff\xd8-", "\xff-", "PNG"})
    check_refused(other, "not a PNG or JPEG");
}

TEST_CASE("bytes behind a picture's end change nothing") {
  const Tensor image = picture(9, 9);
  for (const std::string& sound : {encode_png(image), jpeg(image)}) {
    const Result<Tensor> alone = decode_image(sound);
    REQUIRE(alone.ok());
    for (const std::string& more : {std::string("x"), std::string(100'000, '\0'), sound}) {
      const Result<Tensor> followed = decode_image(sound + more);
      REQUIRE(followed.ok());
      CHECK(std::ranges::equal(followed->u8(), alone->u8()));
    }
  }
}

TEST_CASE("damaged, cut, bottomless and enormous PNGs are refused") {
  const std::string sound = encode_png(picture(9, 9));
  for (std::size_t size = 0; size < sound.size(); ++size)
    CHECK_FALSE(decode_image(sound.substr(0, size)).ok());
  check_refused(sound.substr(0, sound.size() - 3), "the PNG is truncated");
  std::string flipped = sound;
  flipped[50] = static_cast<char>(flipped[50] ^ 4);
  check_refused(flipped, "a checksum does not fit");
  check_refused(png(20'000, 20'000, 8, 2, "x"), "20000 x 20000");
  check_refused(png(10'000, 10'000, 8, 2, "x"), "64 megapixels");
  check_refused(png(0, 5, 8, 2, "x"), "no pixels");
  check_refused(png(5, 5, 8, 2, "x"), "damaged");
  check_refused(magic + chunk("IDAT", "x") + chunk("IEND", ""), "does not begin with its header");
  check_refused(magic + chunk("IHDR", be32(1) + be32(1) + "\x08\x02" + std::string(3, '\0')) +
                    chunk("IEND", ""),
                "holds no pixels");
}

TEST_CASE("a small PNG that unpacks to very much is refused without the memory") {
  // Deflate, fixed codes: one literal, then a long run of matches of length 258, distance 1.
  std::string bits;
  const auto put = [&](unsigned value, int count, bool high_first) {
    for (int i = 0; i < count; ++i)
      bits += static_cast<char>(value >> (high_first ? count - 1 - i : i) & 1U);
  };
  put(1, 1, false), put(1, 2, false), put(0x30, 8, true);
  for (int i = 0; i < 200'000; ++i) put(0b11000101, 8, true), put(0, 5, true);
  put(0, 7, true);
  std::string data = "\x78\x01";
  for (std::size_t i = 0; i < bits.size(); i += 8) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < 8 && i + j < bits.size(); ++j) byte |= unsigned(bits[i + j]) << j;
    data += static_cast<char>(byte);
  }
  const std::string header = be32(1) + be32(1) + "\x08\x02" + std::string(3, '\0');
  check_refused(magic + chunk("IHDR", header) + chunk("IDAT", data) + chunk("IEND", ""),
                "the PNG is damaged (it unpacks to more than its 1 x 1 pixels take)");
}

TEST_CASE("no flip of a byte of a JPEG or PNG crashes a decoder") {
  for (const std::string& sound : {jpeg(picture(8, 8)), encode_png(picture(5, 5))}) {
    SplitMix64 random(11);
    for (int i = 0; i < 3'000; ++i) {
      std::string file = sound;
      for (std::uint64_t n = 1 + random.next() % 3; n > 0; --n)
        file[random.next() % file.size()] = static_cast<char>(random.next());
      const Result<Tensor> read = decode_image(file);
      if (read.ok()) CHECK(read->count() > 0);
    }
  }
}

}  // namespace
}  // namespace sluice
