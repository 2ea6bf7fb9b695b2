#include "base/page_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace sluice {

namespace {

int seals_of(PageWriters writers) {
  constexpr int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return writers == PageWriters::owner ? all | F_SEAL_FUTURE_WRITE : all;
}

Error system_says(const std::string& what, int number) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(number)};
}

class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(std::byte* at, std::size_t size) : Buffer(at, size, nullptr) {}

 private:
  void end() override {
    ::munmap(data(), size());
    delete this;
  }
};

Result<Ref<Buffer>> map(int file, std::size_t size, int access) {
  void* const at = ::mmap(nullptr, size, access, MAP_SHARED, file, 0);
  if (at == MAP_FAILED)
    return system_says(std::to_string(size) + " bytes of pages cannot be mapped", errno);
  return Ref<Buffer>(new MappedBuffer(static_cast<std::byte*>(at), size));
}

}  // namespace

Result<PageMemory> PageMemory::make(std::size_t size, PageWriters writers) {
  PageMemory made{OwnedFile(::memfd_create("sluice-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING)), {}};
  const int file = made.file.get();
  if (file < 0) return system_says("no memory for pages of several processes", errno);
  // All of it now: a process that touches what the machine has not would be ended.
  if (const int no = ::posix_fallocate(file, 0, static_cast<off_t>(size)); no != 0)
    return system_says("there are no " + std::to_string(size) + " bytes for pages", no);
  Result<Ref<Buffer>> bytes = map(file, size, PROT_READ | PROT_WRITE);
  if (!bytes.ok()) return bytes.error();
  if (::fcntl(file, F_ADD_SEALS, seals_of(writers)) != 0)
    return system_says("the memory of pages cannot be sealed", errno);
  made.bytes = std::move(bytes).value();
  return made;
}

Result<Ref<Buffer>> map_page_memory(const OwnedFile& file, std::size_t size, PageWriters writers) {
  const auto wrong = [](const char* what) { return Error{ErrorCode::corrupt, what}; };
  const int has = ::fcntl(file.get(), F_GET_SEALS), seals = seals_of(writers);
  if (has < 0 || (has & seals) != seals) return wrong("the memory of the pages is not sealed");
  struct stat state {};
  if (::fstat(file.get(), &state) != 0 || state.st_size != static_cast<off_t>(size))
    return wrong("the memory of the pages has another size than the pool");
  return map(file.get(), size, writers == PageWriters::owner ? PROT_READ : PROT_READ | PROT_WRITE);
}

}  // namespace sluice
