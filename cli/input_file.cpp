#include "cli/input_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "engine/picture/image_file.h"

namespace sluice::cli {

namespace {

constexpr std::size_t input_bytes_max = std::size_t{40} << 20;

}  // namespace

Result<std::string> read_file(const std::string& path) {
  return read_whole_file(path, input_bytes_max);
}

Result<Tensor> read_picture(const std::string& path) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes.ok()) return bytes.error();
  Result<Tensor> picture = decode_image(*bytes);
  if (!picture.ok()) return Error{picture.error().code, path + ": " + picture.error().message};
  return picture;
}

Result<Tensor> read_input_picture() {
  const Result<std::string> bytes = read_standard_input();
  if (!bytes.ok()) return bytes.error();
  Result<Tensor> picture = decode_image(*bytes);
  if (!picture.ok())
    return Error{picture.error().code, "standard input: " + picture.error().message};
  return picture;
}

Result<std::string> read_standard_input() {
  std::string bytes;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return Error{ErrorCode::unavailable,
                   std::string("standard input cannot be read: ") + std::strerror(errno)};
    if (got == 0) return bytes;
    bytes.append(part.data(), static_cast<std::size_t>(got));
    if (bytes.size() > input_bytes_max)
      return Error{ErrorCode::exhausted, "standard input has more than " +
                                             std::to_string(input_bytes_max) +
                                             " bytes, which is the limit"};
  }
}

}  // namespace sluice::cli
