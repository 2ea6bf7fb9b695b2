// Counted bytes of a tensor: in this process's own memory, or in memory that processes share.
//
// Owns: its bytes, or its part in those of others, until the last reference goes. A buffer may be
// written as long as one `Tensor` has it and nobody else was shown it (`show`). Thread: references
// and `show` from any; the bytes belong to one thread until they are shared.
// Source: frames refer to buffers and are read in place (omni-flow, section 4.1).
#pragma once

#include <atomic>
#include <cstddef>

#include "base/ref.h"

namespace sluice {

class Buffer : public Counted {
 public:
  /// Zero-filled, in this process's memory. Null when there is not so much.
  static Ref<Buffer> zeros(std::size_t size);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Whoever has the only reference may write.
  bool may_write() const { return references() == 1 && !shown_.load(std::memory_order_acquire); }
  /// Somebody reads the bytes whose references are not counted here: they stay as they are.
  void show() const { shown_.store(true, std::memory_order_release); }
  /// Whose memory it is: null for this process's own.
  const void* keeper() const { return keeper_; }

  static void dispose(const Buffer* buffer) { const_cast<Buffer*>(buffer)->end(); }

 protected:
  Buffer(std::byte* data, std::size_t size, const void* keeper)
      : data_(data), size_(size), keeper_(keeper) {}
  ~Buffer() = default;

 private:
  /// The last reference went: frees the object too.
  virtual void end() = 0;

  std::byte* const data_;
  const std::size_t size_;
  const void* const keeper_;
  mutable std::atomic<bool> shown_{false};
};

}  // namespace sluice
