#include "engine/picture/image_file.h"

#include <turbojpeg.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace {

/// The most that the PNG decoder may allocate at once, set from the checked header: a small file
/// that unpacks to gigabytes is refused.
thread_local std::size_t allocation_max = 0;
thread_local bool asked_for_more = false;  // than that, since it was set

bool is_allowed(std::size_t size) {
  asked_for_more = asked_for_more || size > allocation_max;
  return size <= allocation_max;
}
void* bounded_allocate(std::size_t size) { return is_allowed(size) ? std::malloc(size) : nullptr; }
void* bounded_reallocate(void* old, std::size_t size) {
  return is_allowed(size) ? std::realloc(old, size) : nullptr;
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_MALLOC(size) bounded_allocate(size)
#define STBI_REALLOC(old, size) bounded_reallocate(old, size)
#define STBI_FREE(old) std::free(old)
#define STBI_MAX_DIMENSIONS 16384
#include <stb/stb_image.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace sluice {

namespace {

constexpr std::string_view png_magic = "\x89PNG\r\n\x1a\n";
constexpr std::string_view jpeg_magic = "\xff\xd8\xff";

Error corrupt(std::string what) { return {ErrorCode::corrupt, std::move(what)}; }

Result<void> check_size(std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0) return corrupt("the picture has no pixels");
  if (width > image_side_max || height > image_side_max || width * height > image_pixels_max)
    return Error{ErrorCode::exhausted,
                 "the picture is " + std::to_string(width) + " x " + std::to_string(height) +
                     " pixels; at most " + std::to_string(image_side_max) + " a side and " +
                     std::to_string(image_pixels_max / 1'000'000) + " megapixels are read"};
  return {};
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::uint32_t crc32(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t n = 0; n < 256; ++n) {
      std::uint32_t c = n;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1U) != 0 ? 0xedb88320U ^ c >> 1 : c >> 1;
      made[n] = c;
    }
    return made;
  }();
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 255U] ^ crc >> 8;
  return crc ^ 0xffffffffU;
}

/// Walks the chunks: a PNG that ends early or was damaged is found before it is decoded. Gives its
/// length: what stands behind its end is not looked at, as other readers do not.
Result<std::size_t> check_png(std::string_view bytes) {
  std::size_t at = png_magic.size();
  bool data = false;
  for (std::size_t chunk = 0;; ++chunk) {
    if (bytes.size() - at < 12) return corrupt("the PNG is truncated");
    const std::uint64_t length = big_endian(bytes.substr(at));
    if (length > bytes.size() - at - 12) return corrupt("the PNG is truncated");
    const std::string_view body = bytes.substr(at + 4, length + 4);
    if (crc32(body) != big_endian(bytes.substr(at + 8 + length)))
      return corrupt("the PNG is damaged (a checksum does not fit)");
    const std::string_view type = body.substr(0, 4);
    if (chunk == 0) {
      if (type != "IHDR" || length != 13) return corrupt("the PNG does not begin with its header");
      if (Result<void> size = check_size(big_endian(body.substr(4)), big_endian(body.substr(8)));
          !size.ok())
        return size.error();
    }
    data = data || type == "IDAT";
    at += length + 12;
    if (type == "IEND") break;
  }
  if (!data) return corrupt("the PNG holds no pixels");
  return at;
}

/// Pixels may name colours behind the palette's end. They are black: the decoder would take what
/// lies on its stack. Requires: a sound PNG.
std::string with_whole_palette(std::string_view bytes) {
  constexpr std::size_t whole = 3 * 256;
  std::size_t at = png_magic.size(), length = 0;
  for (; bytes.substr(at + 4, 4) != "IDAT"; at += length + 12) {
    length = big_endian(bytes.substr(at));
    if (bytes.substr(at + 4, 4) != "PLTE" || length >= whole || length % 3 != 0) continue;
    std::string made(bytes.substr(0, at));
    made += {'\0', '\0', static_cast<char>(whole >> 8U), '\0'};
    made += bytes.substr(at + 4, 4 + length);
    made.append(whole - length + 4, '\0');  // and the checksum, which nobody looks at any more
    made += bytes.substr(at + 12 + length);
    return made;
  }
  return std::string(bytes);
}

Result<Tensor> new_picture(const NewPicture& make, std::size_t height, std::size_t width) {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(height),
                                  static_cast<std::int64_t>(width), 3};
  return make ? make(std::move(shape)) : Tensor::zeros(Dtype::u8, std::move(shape));
}

/// Why the decoder gave nothing, in words of ours where its own would say nothing to a user.
Error png_failure(std::uint64_t width, std::uint64_t height) {
  const std::string_view why = stbi_failure_reason();
  if (why != "outofmem") return corrupt("the PNG is damaged (" + std::string(why) + ")");
  if (!asked_for_more) return {ErrorCode::exhausted, "there is no memory to unpack the PNG"};
  return corrupt("the PNG is damaged (it unpacks to more than its " + std::to_string(width) +
                 " x " + std::to_string(height) + " pixels take)");
}

Result<Tensor> decode_png(std::string_view bytes, const NewPicture& make) {
  const Result<std::size_t> length = check_png(bytes);
  if (!length.ok()) return length.error();
  bytes = bytes.substr(0, *length);
  constexpr char of_a_palette = 3;
  std::string whole;
  if (bytes[png_magic.size() + 8 + 9] == of_a_palette) bytes = whole = with_whole_palette(bytes);
  // At most four channels of 16 bits and a filter byte a row; the decoder's buffers double.
  const std::uint64_t across = big_endian(bytes.substr(png_magic.size() + 8));
  const std::uint64_t down = big_endian(bytes.substr(png_magic.size() + 12));
  allocation_max = 2 * ((across * 8 + 9) * (down + 8) + bytes.size()) + 65'536;
  asked_for_more = false;
  int width = 0;
  int height = 0;
  int channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                            static_cast<int>(bytes.size()), &width, &height, &channels, 4),
      &stbi_image_free);
  if (!pixels) return png_failure(across, down);
  Result<Tensor> image =
      new_picture(make, static_cast<std::size_t>(height), static_cast<std::size_t>(width));
  if (!image.ok()) return image;
  const std::span<std::uint8_t> to = image->u8();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const unsigned value = pixels.get()[i / 3 * 4 + i % 3];
    const unsigned alpha = pixels.get()[i / 3 * 4 + 3];
    to[i] = static_cast<std::uint8_t>((value * alpha + 255U * (255U - alpha) + 127U) / 255U);
  }
  return image;
}

/// The EXIF orientation of a JPEG, 1 to 8; 1 when there is none or it makes no sense.
int orientation_of(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  std::size_t at = 2;
  while (at + 4 <= bytes.size() && byte(at) == 0xff) {
    const unsigned marker = byte(at + 1);
    const std::size_t length = static_cast<std::size_t>(byte(at + 2)) << 8 | byte(at + 3);
    if (marker == 0xda || length < 2 || at + 2 + length > bytes.size()) return 1;
    const std::string_view body = bytes.substr(at + 4, length - 2);
    at += 2 + length;
    if (marker != 0xe1 || body.size() < 14 || !body.starts_with(std::string_view("Exif\0\0", 6)))
      continue;
    const std::string_view tiff = body.substr(6);
    const bool little = tiff.starts_with("II");
    const auto read = [&](std::size_t from, std::size_t count) {
      std::uint32_t value = 0;
      for (std::size_t i = 0; i < count; ++i)
        value =
            value << 8 | static_cast<unsigned char>(tiff[little ? from + count - 1 - i : from + i]);
      return value;
    };
    const std::size_t directory = read(4, 4);
    if (directory + 2 > tiff.size() || directory + 2 < directory) return 1;
    const std::size_t entries = read(directory, 2);
    for (std::size_t e = 0; e < entries; ++e) {
      const std::size_t entry = directory + 2 + e * 12;
      if (entry + 12 > tiff.size()) return 1;
      if (read(entry, 2) != 0x0112) continue;
      const std::uint32_t value = read(entry + 8, 2);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
  }
  return 1;
}

/// Requires: another orientation than 1.
Result<Tensor> turn_upright(const Tensor& image, int orientation, const NewPicture& make) {
  const auto height = static_cast<std::size_t>(image.dim(0));
  const auto width = static_cast<std::size_t>(image.dim(1));
  const bool swapped = orientation >= 5;
  Result<Tensor> turned =
      swapped ? new_picture(make, width, height) : new_picture(make, height, width);
  if (!turned.ok()) return turned;
  const std::span<std::uint8_t> to = turned->u8();
  const auto columns = static_cast<std::size_t>(turned->dim(1));
  for (std::size_t y = 0; y < static_cast<std::size_t>(turned->dim(0)); ++y) {
    for (std::size_t x = 0; x < columns; ++x) {
      std::size_t sy = swapped ? x : y;
      std::size_t sx = swapped ? y : x;
      if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8)
        (swapped ? sx : sy) = swapped ? width - 1 - sx : height - 1 - sy;
      if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7)
        (swapped ? sy : sx) = swapped ? height - 1 - sy : width - 1 - sx;
      std::memcpy(to.data() + (y * columns + x) * 3, image.u8().data() + (sy * width + sx) * 3, 3);
    }
  }
  return turned;
}

Result<Tensor> decode_jpeg(std::string_view bytes, const NewPicture& make) {
  const std::unique_ptr<void, decltype(&tjDestroy)> decoder(tjInitDecompress(), &tjDestroy);
  if (!decoder) return Error{ErrorCode::unavailable, "the JPEG decoder could not start"};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0;
  int height = 0;
  int sampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(decoder.get(), data, bytes.size(), &width, &height, &sampling,
                          &colours) != 0)
    return corrupt(std::string("the JPEG is damaged (") + tjGetErrorStr2(decoder.get()) + ")");
  if (Result<void> size =
          check_size(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height));
      !size.ok())
    return size.error();
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    return invalid_argument("the JPEG is CMYK, for print; save it as RGB");
  const int orientation = orientation_of(bytes);
  Result<Tensor> image =
      new_picture(orientation == 1 ? make : NewPicture{}, static_cast<std::size_t>(height),
                  static_cast<std::size_t>(width));
  if (!image.ok()) return image;
  // A truncated file is only a warning to the decoder; here it is an error.
  if (tjDecompress2(decoder.get(), data, bytes.size(), image->u8().data(), width, 0, height,
                    TJPF_RGB, TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
    return corrupt(std::string("the JPEG is truncated or damaged (") +
                   tjGetErrorStr2(decoder.get()) + ")");
  return orientation == 1 ? image : turn_upright(*image, orientation, make);
}

std::string what_it_is(std::string_view bytes) {
  if (bytes.empty()) return "it is empty";
  if (bytes.starts_with("GIF8")) return "it is a GIF";
  if (bytes.starts_with("BM")) return "it looks like a BMP";
  if (bytes.size() > 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP")
    return "it is a WebP";
  if (bytes.starts_with("%PDF")) return "it is a PDF";
  for (const char c : bytes.substr(0, 512)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 9 || (u > 13 && u < 32)) return "it is in no format known here";
  }
  return "it is plain text";
}

/// Of a file that ends within the bytes by which its format is known; empty: of another.
std::string begun_format(std::string_view bytes) {
  if (bytes.size() < 2) return "";  // one byte says too little
  return png_magic.starts_with(bytes) ? "PNG" : jpeg_magic.starts_with(bytes) ? "JPEG" : "";
}

}  // namespace

Result<Tensor> decode_image(std::string_view bytes, const NewPicture& make) {
  constexpr std::size_t bytes_max = std::size_t{256} << 20;
  if (bytes.size() > bytes_max)
    return Error{ErrorCode::exhausted, "the file has " + std::to_string(bytes.size()) +
                                           " bytes, the limit is " + std::to_string(bytes_max)};
  if (bytes.starts_with(png_magic)) return decode_png(bytes, make);
  if (bytes.starts_with(jpeg_magic)) return decode_jpeg(bytes, make);
  if (const std::string format = begun_format(bytes); !format.empty())
    return corrupt("the " + format + " is truncated");
  return invalid_argument("not a PNG or JPEG: " + what_it_is(bytes));
}

std::string encode_png(const Tensor& image) {
  SLUICE_CHECK(image.dtype() == Dtype::u8 && image.shape().size() == 3 && image.dim(2) == 3);
  std::string bytes;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                          static_cast<std::size_t>(size));
  };
  const int width = static_cast<int>(image.dim(1));
  SLUICE_CHECK(stbi_write_png_to_func(append, &bytes, width, static_cast<int>(image.dim(0)), 3,
                                      image.u8().data(), width * 3) != 0);
  return bytes;
}

}  // namespace sluice
