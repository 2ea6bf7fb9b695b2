// The memory of a pool's pages that several processes of this machine write: a file without a name,
// mapped by each of them.
//
// It is sealed, so nobody can make it shorter under another's feet. Whoever has the descriptor may
// read and write all of it: it is given to processes of this program alone. It goes with the last
// process that has it. Thread: any. Units: bytes. Errors: unavailable (the system has no such
// memory, or not so much), corrupt (a descriptor that is no such memory).
// Source: memfd_create(2), fcntl(2) F_ADD_SEALS.
#pragma once

#include <cstddef>

#include "base/buffer.h"
#include "base/owned_file.h"
#include "base/result.h"

namespace sluice {

struct PageMemory {
  OwnedFile file;
  Ref<Buffer> bytes;  // zeros at first

  static Result<PageMemory> make(std::size_t size);
};

/// The same memory in another process. `size`: as it was made.
Result<Ref<Buffer>> map_page_memory(const OwnedFile& file, std::size_t size);

}  // namespace sluice
