#include "cli/input_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t input_bytes_max = std::uintmax_t{40} << 20;

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::error_code failed;
  const auto status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found)
    return Error{ErrorCode::not_found, path + ": no such file"};
  if (status.type() != fs::file_type::regular) return invalid_argument(path + ": not a file");
  const auto size = fs::file_size(path, failed);
  if (failed || size > input_bytes_max)
    return Error{ErrorCode::exhausted, path + ": the file has " + std::to_string(size) +
                                           " bytes, at most " + std::to_string(input_bytes_max) +
                                           " are read"};
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file) return Error{ErrorCode::not_found, path + ": cannot be read"};
  return bytes.str();
}

}  // namespace sluice::cli
