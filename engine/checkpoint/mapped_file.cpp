#include "engine/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace sluice {

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK a FIFO would be waited for.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return Error{ErrorCode::not_found, path + ": " + std::strerror(errno)};
  struct stat facts {};
  const bool regular = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  const auto size = static_cast<std::size_t>(regular ? facts.st_size : 0);
  void* address = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  const int failed = errno;
  ::close(file);
  if (size == 0) return Error{ErrorCode::corrupt, path + ": empty, or not a regular file"};
  if (address == MAP_FAILED)  // where a host's address space is limited, for one
    return Error{ErrorCode::exhausted, path + ": its " + std::to_string(size) +
                                           " bytes cannot be mapped: " + std::strerror(failed)};
  MappedFile made;
  made.bytes = {static_cast<const std::byte*>(address), size};
  made.owner = std::shared_ptr<const void>(
      address, [size](const void* at) { munmap(const_cast<void*>(at), size); });
  return made;
}

}  // namespace sluice
