// The memory of a pool's pages that several processes of this machine map: a file without a name.
//
// It is sealed, so nobody can make it shorter under another's feet. Where all write it, whoever has
// the descriptor may: it is given to processes of this program alone. Where its owner alone does,
// others can only read it, whatever they do with the descriptor. It goes with the last process that
// has it. Thread: any. Units: bytes. Errors: unavailable (the system has no such memory, or not so
// much), corrupt (a descriptor that is no such memory).
// Source: memfd_create(2), fcntl(2) F_ADD_SEALS.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"
#include "base/owned_file.h"
#include "base/result.h"

namespace sluice {

/// `owner`: who made it, through the mapping of then; Linux 5.1.
enum class PageWriters : std::uint8_t { all, owner };

struct PageMemory {
  OwnedFile file;
  Ref<Buffer> bytes;  // zeros at first

  static Result<PageMemory> make(std::size_t size, PageWriters writers = PageWriters::all);
};

/// The same memory in another process, of which only the owner writes it to be read. `size`: as it
/// was made.
Result<Ref<Buffer>> map_page_memory(const OwnedFile& file, std::size_t size,
                                    PageWriters writers = PageWriters::all);

}  // namespace sluice
