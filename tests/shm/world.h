// Machines of one computer that share memory, in one process, and peers that say what they like.
#pragma once

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "runtime/shm/shared_memory.h"
#include "tests/scratch_folder.h"

namespace sluice::testing {

/// Until it is so; false after twenty seconds.
template <typename Holds>
bool until(const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

/// Memory files of ours that are mapped in this process.
inline std::size_t mapped_slabs();

class Folder : public ScratchFolder {
 public:
  std::string socket(std::uint32_t machine) const { return path() + "/" + std::to_string(machine); }
};

/// Machines 1 to 3 know each other.
inline shm::SharedMemoryOptions options_of(const Folder& folder, Origin self) {
  shm::SharedMemoryOptions options;
  options.self = self;
  options.socket = folder.socket(self.machine);
  for (std::uint32_t machine = 1; machine <= 3; ++machine)
    if (machine != self.machine) options.peers[machine] = folder.socket(machine);
  options.bytes_max = shm::BlockPool::slab_bytes;
  options.reader_bytes_max = shm::BlockPool::slab_bytes / 2;
  return options;
}

inline std::unique_ptr<shm::SharedMemory> machine(shm::SharedMemoryOptions options) {
  Result<std::unique_ptr<shm::SharedMemory>> made = shm::SharedMemory::make(std::move(options));
  INFO((made ? std::string() : made.error().message));
  REQUIRE(made.ok());
  return std::move(*made);
}

inline Ref<Buffer> pattern(std::size_t size, unsigned seed) {
  Ref<Buffer> made = Buffer::zeros(size);
  for (std::size_t i = 0; i < size; ++i)
    made->data()[i] = static_cast<std::byte>((i * 31 + (i >> 8U) + seed) & 255U);
  return made;
}

inline bool equal(const Ref<Buffer>& a, const Ref<Buffer>& b) {
  return a->size() == b->size() && std::memcmp(a->data(), b->data(), a->size()) == 0;
}

/// A handle of these bytes, once the other machine has mapped this one's memory.
inline wire::Handle lend(shm::SharedMemory& from, Origin to, const Ref<Buffer>& bytes) {
  std::optional<wire::Handle> handle;
  REQUIRE(until([&] {
    handle = from.lend(to, bytes);
    return handle.has_value();
  }));
  return *handle;
}

inline std::size_t mapped_slabs() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  REQUIRE(maps != nullptr);
  std::size_t count = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr)
    if (std::strstr(line, "memfd:sluice") != nullptr) ++count;
  std::fclose(maps);
  return count;
}

}  // namespace sluice::testing
