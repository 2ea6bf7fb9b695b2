// A file's bytes, read-only in memory.
//
// Errors: not_found, corrupt (empty, or not a regular file).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace sluice {

struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // of the mapping

  static Result<MappedFile> open(const std::string& path);
};

}  // namespace sluice
