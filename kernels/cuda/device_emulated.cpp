// A device that is the CPU: for tests of what runs on a GPU.
#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/emulation.h"

namespace sluice::device {

namespace {

/// What a recording keeps, in order.
using Recorded = std::vector<std::function<void()>>;
Recorded recorded;
bool recording = false;

/// A copy from pinned memory that a GPU might still be at: the bytes, and what they must be.
struct UnderWay {
  const std::byte* from;
  std::vector<std::byte> bytes;

  void check() const {
    SLUICE_CHECK(std::equal(bytes.begin(), bytes.end(), from),
                 "pinned memory has changed before a copy from it was waited for");
  }
};
std::vector<UnderWay> under_way;
void wait_for_copies() {
  for (const UnderWay& copy : under_way) copy.check();
  under_way.clear();
}

/// A copy that a GPU makes while the caller goes on: here at the last moment, when somebody hears
/// that it is done. So what is changed or read too early shows.
struct Later {
  Stream stream;
  void* to;
  const void* from;
  std::size_t bytes;
};
std::vector<Later> later;
std::size_t slow = 1, asked = 0;
void make_copies(const Stream* of) {
  for (const Later& copy : later)
    if (of == nullptr || copy.stream == *of) std::memcpy(copy.to, copy.from, copy.bytes);
  std::erase_if(later, [&](const Later& copy) { return of == nullptr || copy.stream == *of; });
}

emulated::Fault* fault = nullptr;

/// One more call that may fail: whether this is the one.
Result<void> may_fail(emulated::Fault::Of what) {
  using Of = emulated::Fault::Of;
  if (fault == nullptr || fault->happened) return {};
  if (fault->of != what && !(fault->of == Of::others && what == Of::waits)) return {};
  if (fault->call-- != 0) return {};
  fault->happened = true;
  return Error{ErrorCode::unavailable, "the device was told to fail"};
}

float as_float(float value) { return value; }
float as_float(Bf16 value) { return widen(value); }
void put(float& to, float value) { to = value; }
void put(Bf16& to, float value) { to = narrow(value); }

template <typename T, typename U>
Result<void> product(const T* x, const T* weight, U* y, std::size_t rows, std::size_t out,
                     std::size_t in) {
  if (Result<void> fails = may_fail(emulated::Fault::Of::products); !fails.ok()) return fails;
  emulated::submit([=] {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < out; ++o) {
        float sum = 0;
        for (std::size_t i = 0; i < in; ++i)
          sum += as_float(x[r * in + i]) * as_float(weight[o * in + i]);
        put(y[r * out + o], sum);
      }
  });
  return {};
}

class EmulatedProducts final : public Products {
 public:
  Result<void> multiply(const float* x, const float* w, float* y, std::size_t rows, std::size_t out,
                        std::size_t in, Stream) override {
    return product(x, w, y, rows, out, in);
  }
  Result<void> multiply(const Bf16* x, const Bf16* w, Bf16* y, std::size_t rows, std::size_t out,
                        std::size_t in, Stream) override {
    return product(x, w, y, rows, out, in);
  }
  Result<void> multiply(const Bf16* x, const Bf16* w, float* y, std::size_t rows, std::size_t out,
                        std::size_t in, Stream) override {
    return product(x, w, y, rows, out, in);
  }
};

class EmulatedGraph final : public Graph {
 public:
  explicit EmulatedGraph(Recorded work) : work_(std::move(work)) {}
  void launch(Stream) override {
    for (const auto& work : work_) work();
  }

 private:
  Recorded work_;
};

}  // namespace

void emulated::plan_fault(Fault* next) { fault = next; }
void emulated::slow_copies(std::size_t questions) { slow = questions; }

void emulated::submit(std::function<void()> work) {
  if (recording)
    recorded.push_back(std::move(work));
  else
    work();
}

Result<About> find_device() {
  return About{"emulation on the CPU", std::size_t{1} << 30, std::size_t{1} << 30, 2};
}
unsigned processors() { return 2; }  // few, so that blocks take several rows

Result<Memory> Memory::allocate(std::size_t bytes) {
  if (Result<void> fails = may_fail(emulated::Fault::Of::others); !fails.ok()) return fails.error();
  Memory made;
  // Aligned as a GPU's memory is, and not cleared: what is read before it is written shows.
  made.data_ = ::operator new (bytes, std::align_val_t{256});
  std::memset(made.data_, 0xff, bytes);
  made.bytes_ = bytes;
  return made;
}
Memory::~Memory() {
  if (data_ == nullptr) return;
  wait_for_copies();  // as `cudaFree` does for all work
  make_copies(nullptr);
  ::operator delete (data_, std::align_val_t{256});
}

Result<HostMemory> HostMemory::allocate(std::size_t bytes) {
  if (Result<void> fails = may_fail(emulated::Fault::Of::others); !fails.ok()) return fails.error();
  HostMemory made;
  made.data_.reset(static_cast<std::byte*>(::operator new(bytes)));
  std::memset(made.data_.get(), 0xff, bytes);
  made.bytes_ = bytes;
  return made;
}
void HostMemory::Free::operator()(std::byte* data) const {
  SLUICE_CHECK(std::ranges::none_of(under_way, [&](const auto& c) { return c.from == data; }),
               "pinned memory is freed before a copy from it was waited for");
  ::operator delete(data);
}

Result<Pinned> Pinned::make(std::span<std::byte> memory) {
  if (Result<void> fails = may_fail(emulated::Fault::Of::others); !fails.ok()) return fails.error();
  return Pinned(memory.data());
}
Pinned::~Pinned() {
  SLUICE_CHECK(data_ == nullptr || later.empty(),
               "pinned memory is let go before a copy of it was waited for");
}

Result<Stream> make_stream() {
  if (Result<void> fails = may_fail(emulated::Fault::Of::others); !fails.ok()) return fails.error();
  return Stream{new char};  // another one each time
}
void free_stream(Stream stream) {
  SLUICE_CHECK(std::ranges::none_of(later, [&](const Later& c) { return c.stream == stream; }),
               "a stream is freed before its copies were waited for");
  delete static_cast<char*>(stream);
}
void copy_in(void* device, const void* host, std::size_t bytes, Stream) {
  SLUICE_CHECK(!recording, "a recording holds work of the device only");
  if (bytes != 0) std::memcpy(device, host, bytes);
}
void copy_pinned(void* device, const HostMemory& host, std::size_t bytes, Stream stream) {
  copy_in(device, host.data(), bytes, stream);
  under_way.push_back({host.data(), {host.data(), host.data() + bytes}});
}
void copy_out(void* host, const void* device, std::size_t bytes, Stream) {
  if (bytes != 0) std::memcpy(host, device, bytes);
}
Result<void> synchronise(Stream) {
  SLUICE_CHECK(!recording, "a recording cannot be waited for");
  if (Result<void> fails = may_fail(emulated::Fault::Of::waits); !fails.ok()) return fails;
  wait_for_copies();
  return {};
}

Result<void> follow(Stream, Stream) { return may_fail(emulated::Fault::Of::copies); }
Result<void> copy_in_later(void* device, const void* host, std::size_t bytes, Stream stream) {
  if (Result<void> fails = may_fail(emulated::Fault::Of::copies); !fails.ok()) return fails;
  later.push_back({stream, device, host, bytes});
  return {};
}
Result<void> copy_out_later(void* host, const void* device, std::size_t bytes, Stream stream) {
  return copy_in_later(host, device, bytes, stream);
}
namespace {
/// What failed is not copied.
Result<void> copies_may_fail(Stream stream) {
  Result<void> fails = may_fail(emulated::Fault::Of::copies);
  if (!fails.ok()) std::erase_if(later, [&](const Later& copy) { return copy.stream == stream; });
  return fails;
}
}  // namespace
Result<bool> is_done(Stream stream) {
  if (Result<void> fails = copies_may_fail(stream); !fails.ok()) return fails.error();
  const bool none =
      std::ranges::none_of(later, [&](const Later& copy) { return copy.stream == stream; });
  if (!none && asked++ % (slow + 1) != slow) return false;
  make_copies(&stream);
  return true;
}
Result<void> wait(Stream stream) {
  if (Result<void> fails = copies_may_fail(stream); !fails.ok()) return fails;
  make_copies(&stream);
  return {};
}

Result<std::unique_ptr<Products>> make_products() {
  if (Result<void> fails = may_fail(emulated::Fault::Of::others); !fails.ok()) return fails.error();
  return std::unique_ptr<Products>(std::make_unique<EmulatedProducts>());
}

void begin_recording(Stream) { recording = true; }
Result<std::unique_ptr<Graph>> end_recording(Stream) {
  recording = false;
  if (Result<void> fails = may_fail(emulated::Fault::Of::others); !fails.ok()) {
    recorded.clear();
    return fails.error();
  }
  return std::unique_ptr<Graph>(std::make_unique<EmulatedGraph>(std::exchange(recorded, {})));
}

}  // namespace sluice::device
