#include "plugin/elf_size.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace sluice {

namespace {

/// Where `bytes` from `offset` on end; the largest number if that is none, and 0 for no bytes.
std::uint64_t end_of(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return bytes > most - offset ? most : offset + bytes;
}

}  // namespace

std::uint64_t elf_bytes_needed(std::span<const std::byte> begin) {
  Elf64_Ehdr header{};
  // Of a file that ends within its header, what is there counts: all it may say is its kind.
  if (begin.size() <= EI_DATA) return 0;
  std::memcpy(&header, begin.data(), std::min(begin.size(), sizeof header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB)
    return 0;
  if (begin.size() < sizeof header) return sizeof header;
  const std::uint64_t segments = std::uint64_t{header.e_phnum} * header.e_phentsize;
  const std::uint64_t sections = std::uint64_t{header.e_shnum} * header.e_shentsize;
  std::uint64_t needed = std::max({std::uint64_t{sizeof header}, end_of(header.e_phoff, segments),
                                   end_of(header.e_shoff, sections)});
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return needed;  // the loader reads no other
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const std::uint64_t end = end_of(header.e_phoff, (i + 1) * sizeof(Elf64_Phdr));
    if (end > begin.size()) break;
    Elf64_Phdr segment{};
    std::memcpy(&segment, begin.data() + (end - sizeof segment), sizeof segment);
    if (segment.p_type == PT_LOAD)
      needed = std::max(needed, end_of(segment.p_offset, segment.p_filesz));
  }
  return needed;
}

}  // namespace sluice
