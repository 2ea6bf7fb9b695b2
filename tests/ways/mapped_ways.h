// Memory that processes of one computer map, at a socket of its own each.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/remote_memory.h"
#include "runtime/shm/mapped_memory.h"
#include "tests/scratch_folder.h"

namespace sluice {

/// In a folder of the whole run, which its children know: those that are killed leave their sockets
/// there.
inline MappedMemoryOptions mapped_options() {
  constexpr const char* variable = "SLUICE_TEST_WAYS_FOLDER";
  static std::atomic<int> next{0};
  const char* folder = std::getenv(variable);
  if (folder == nullptr) {
    static const ScratchFolder scratch;
    ::setenv(variable, scratch.path().c_str(), 1);
    folder = std::getenv(variable);
  }
  MappedMemoryOptions options;
  options.socket =
      std::string(folder) + "/" + std::to_string(::getpid()) + "." + std::to_string(next++);
  options.threads = 2;
  return options;
}

inline Result<std::unique_ptr<RemoteMemory>> make_mapped() {
  return make_mapped_memory(mapped_options());
}

}  // namespace sluice
