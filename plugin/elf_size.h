// How long a shared object says that it is: a file that ends early is found before it is loaded.
//
// The system's loader maps what the headers name, and a page behind the file's end ends the
// process with SIGBUS. Thread: any; nothing is kept. Bounds: nothing in the file is trusted.
// Source: the ELF-64 object file format, and elf.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// The bytes that the headers of an ELF file of 64 bits, little-endian, need: the file's header,
/// the tables of its segments and sections, and what is loaded. `begin`: the file's first bytes; a
/// segment that is told of behind them does not count. 0: no such file, as the loader will say.
std::uint64_t elf_bytes_needed(std::span<const std::byte> begin);

}  // namespace sluice
