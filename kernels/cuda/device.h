// A GPU's memory, order of work, products and graphs, as the engine uses them.
//
// Two implementations: CUDA, and the emulation that tests run on. Nothing here throws or aborts: a
// device that is not there is `unavailable`, memory that does not suffice `exhausted`.
// Thread: a stream belongs to one thread. Work is asynchronous until `synchronise`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace sluice::device {

struct Bf16 {
  std::uint16_t bits = 0;
};
inline float widen(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
/// To nearest even. No NaN comes here.
inline Bf16 narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}

using Stream = void*;

struct About {
  std::string name;
  std::size_t memory_bytes = 0, free_bytes = 0;
  int processors = 0;  // SMs
};
/// The first device. Errors: unavailable (no driver, no device, one that is too old).
Result<About> find_device();
/// The SMs of the device in use, asked once; 1 if there is none.
unsigned processors();

/// Bytes of device memory; freed when it goes, which waits for the device's work.
class Memory {
 public:
  Memory() = default;
  static Result<Memory> allocate(std::size_t bytes);
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Bytes of the host that the device reads by itself (pinned). Freed when they go, which requires
/// that no copy from them is under way.
class HostMemory {
 public:
  HostMemory() = default;
  static Result<HostMemory> allocate(std::size_t bytes);
  HostMemory(HostMemory&& other) noexcept
      : data_(std::move(other.data_)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

/// The same of memory that stands somewhere already, which must outlive this.
class Pinned {
 public:
  static Result<Pinned> make(std::span<std::byte> memory);
  Pinned(Pinned&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Pinned& operator=(Pinned&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Pinned();

 private:
  explicit Pinned(std::byte* data) : data_(data) {}
  std::byte* data_ = nullptr;
};

Result<Stream> make_stream();
void free_stream(Stream stream);
/// In the stream's order. The host's bytes may change when it returns.
void copy_in(void* device, const void* host, std::size_t bytes, Stream stream);
/// The first `bytes`, which must stay as they are until the stream has come past the copy.
void copy_pinned(void* device, const HostMemory& host, std::size_t bytes, Stream stream);
void copy_out(void* host, const void* device, std::size_t bytes, Stream stream);
/// Waits. Errors: unavailable, with what went wrong since the last time.
Result<void> synchronise(Stream stream);

/// What is given to `stream` from here on waits for all that `earlier` was given.
Result<void> follow(Stream stream, Stream earlier);
/// In the stream's order, of a stream that has such copies alone. Neither side may change until the
/// stream `is_done`. What goes wrong is theirs to say, and not `synchronise`'s.
Result<void> copy_in_later(void* device, const void* host, std::size_t bytes, Stream stream);
Result<void> copy_out_later(void* host, const void* device, std::size_t bytes, Stream stream);
Result<bool> is_done(Stream stream);
/// Until it is.
Result<void> wait(Stream stream);

/// Products of matrices: y = x W^T, sums in f32. Keeps what it chose for each size.
class Products {
 public:
  virtual ~Products() = default;
  /// x [rows, in], weight [out, in], y [rows, out].
  virtual Result<void> multiply(const float* x, const float* weight, float* y, std::size_t rows,
                                std::size_t out, std::size_t in, Stream stream) = 0;
  virtual Result<void> multiply(const Bf16* x, const Bf16* weight, Bf16* y, std::size_t rows,
                                std::size_t out, std::size_t in, Stream stream) = 0;
  virtual Result<void> multiply(const Bf16* x, const Bf16* weight, float* y, std::size_t rows,
                                std::size_t out, std::size_t in, Stream stream) = 0;
};
/// Errors: unavailable (the product library is not installed, and which).
Result<std::unique_ptr<Products>> make_products();

/// Work recorded once and launched as one.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream stream) = 0;
};
/// Kernels and products that are given to the stream from here on are recorded and not done, until
/// `end_recording`. Nothing may be allocated or copied meanwhile.
void begin_recording(Stream stream);
Result<std::unique_ptr<Graph>> end_recording(Stream stream);
}  // namespace sluice::device
