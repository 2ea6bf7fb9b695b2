#include "workflows/read_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "workflows/yaml_tree.h"

namespace sluice {

Result<std::string> read_text_file(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (failed || status.type() == std::filesystem::file_type::not_found)
    return Error{ErrorCode::not_found, path + ": no such file"};
  if (status.type() != std::filesystem::file_type::regular)
    return invalid_argument(path + ": not a file");
  const auto size = std::filesystem::file_size(path, failed);
  if (failed || size > yaml_bytes_max)
    return Error{ErrorCode::exhausted, path + ": the file has " + std::to_string(size) +
                                           " bytes, a workflow has at most " +
                                           std::to_string(yaml_bytes_max)};
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Error{ErrorCode::not_found, path + ": cannot be read"};
  return text.str();
}

}  // namespace sluice
