#include "base/buffer.h"

#include <cstdlib>
#include <limits>
#include <new>

namespace sluice {

namespace {

/// The bytes stand behind the object, in one piece of memory that comes zeroed from the system.
class HostBuffer final : public Buffer {
 public:
  static constexpr std::size_t head = 64;
  HostBuffer(void* place, std::size_t size)
      : Buffer(static_cast<std::byte*>(place) + head, size, nullptr) {}

 private:
  void end() override {
    this->~HostBuffer();
    std::free(this);
  }
};
static_assert(sizeof(HostBuffer) <= HostBuffer::head);

}  // namespace

Ref<Buffer> Buffer::zeros(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() - HostBuffer::head) return {};
  void* const place = std::calloc(1, HostBuffer::head + size);
  return place == nullptr ? Ref<Buffer>() : Ref<Buffer>(new (place) HostBuffer(place, size));
}

}  // namespace sluice
