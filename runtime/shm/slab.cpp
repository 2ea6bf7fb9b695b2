#include "runtime/shm/slab.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace sluice::shm {

namespace {

constexpr int seals_needed = F_SEAL_SHRINK | F_SEAL_GROW;

Error system_says(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

/// The place of a block in the table, which its owner writes while others read.
std::atomic_ref<std::uint64_t> generation_at(std::byte* slab, std::uint32_t block) {
  return std::atomic_ref(reinterpret_cast<std::uint64_t*>(slab)[block]);
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  reset();
  at_ = std::exchange(other.at_, nullptr);
  return *this;
}

Mapping Mapping::of(int descriptor, bool to_write) {
  Mapping mapping;
  void* const at = ::mmap(nullptr, slab_file_bytes, to_write ? PROT_READ | PROT_WRITE : PROT_READ,
                          MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (at != MAP_FAILED) mapping.at_ = static_cast<std::byte*>(at);
  return mapping;
}

void Mapping::reset() {
  if (at_ != nullptr) ::munmap(at_, slab_file_bytes);
  at_ = nullptr;
}

Result<std::unique_ptr<Slab>> Slab::make() {
  auto slab = std::make_unique<Slab>();
  slab->file_ = OwnedFile(::memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = slab->descriptor();
  if (file < 0) return system_says("no shared memory can be made");
  if (::ftruncate(file, slab_file_bytes) != 0) return system_says("shared memory has no room");
  if (::fallocate(file, 0, 0, slab_table_bytes) != 0)
    return system_says("shared memory has no room");
  slab->mapping_ = Mapping::of(file, true);
  if (slab->mapping_.get() == nullptr) return system_says("shared memory cannot be mapped");
  if (::fcntl(file, F_ADD_SEALS, seals_needed) != 0)
    return system_says("shared memory cannot be sealed");
  // Not on kernels before 5.1: there, other processes of this user could write it.
  static_cast<void>(::fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
  if (::fcntl(file, F_ADD_SEALS, F_SEAL_SEAL) != 0)
    return system_says("shared memory cannot be sealed");
  return slab;
}

void Slab::mark(std::uint32_t block, std::uint64_t generation) const {
  generation_at(mapping_.get(), block).store(generation, std::memory_order_release);
}

bool Slab::fill(std::uint32_t block, std::size_t size) {
  const std::size_t units = (size + BlockPool::unit_bytes - 1) / BlockPool::unit_bytes;
  if (filled_from_[block] >= units) return true;
  const auto at = static_cast<off_t>(slab_table_bytes + block * BlockPool::unit_bytes);
  if (::fallocate(descriptor(), 0, at, static_cast<off_t>(units * BlockPool::unit_bytes)) != 0)
    return false;
  for (std::size_t i = 0; i < units; ++i)
    filled_from_[block + i] =
        std::max(filled_from_[block + i], static_cast<std::uint32_t>(units - i));
  return true;
}

Result<std::unique_ptr<SlabView>> SlabView::map(const OwnedFile& file) {
  const auto wrong = [](const char* what) { return Error{ErrorCode::corrupt, what}; };
  if (!file) return wrong("no descriptor came with it");
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) return wrong("the descriptor is not of memory that can be sealed");
  if ((seals & seals_needed) != seals_needed) return wrong("the memory is not sealed");
  struct stat state {};
  if (::fstat(file.get(), &state) != 0 || state.st_size != off_t{slab_file_bytes})
    return wrong("the memory has another size than a slab");
  auto view = std::make_unique<SlabView>();
  view->mapping_ = Mapping::of(file.get(), false);
  if (view->mapping_.get() == nullptr) return system_says("the memory cannot be mapped");
  return view;
}

Result<const std::byte*> SlabView::find(const wire::Handle& handle, std::size_t size) const {
  const std::size_t units = (size + BlockPool::unit_bytes - 1) / BlockPool::unit_bytes;
  if (handle.block >= BlockPool::slab_units || units > BlockPool::slab_units - handle.block)
    return Error{ErrorCode::corrupt, "a block " + std::to_string(handle.block) + " of " +
                                         std::to_string(size) + " bytes, past its slab's end"};
  const std::uint64_t stands =
      generation_at(mapping_.get(), handle.block).load(std::memory_order_acquire);
  if (handle.generation == 0 || stands != handle.generation)
    return Error{ErrorCode::corrupt, "generation " + std::to_string(handle.generation) +
                                         " of block " + std::to_string(handle.block) + ", where " +
                                         std::to_string(stands) + " stands"};
  return mapping_.get() + slab_table_bytes + handle.block * BlockPool::unit_bytes;
}

}  // namespace sluice::shm
