// A counted reference to an immutable object: what lets one frame be read by many consumers.
//
// Thread: `Counted` counts atomically, so references may be dropped on any thread; `LocalCounted`
// stays on one loop. The object itself must not change after it is shared. Source: a frame is read
// by every edge it leaves on (omni-flow, section 3.3).
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace sluice {

/// Base of counted objects. A new object has count 0; the first `Ref` makes it 1.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  /// True when the last reference went.
  bool release() const { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  std::uint32_t references() const { return references_.load(std::memory_order_acquire); }

 protected:
  ~Counted() = default;

 private:
  mutable std::atomic<std::uint32_t> references_{0};
};

/// Base of counted objects that stay on one loop: the count is a plain number.
class LocalCounted {
 public:
  LocalCounted() = default;
  LocalCounted(const LocalCounted&) = delete;
  LocalCounted& operator=(const LocalCounted&) = delete;

  void retain() const { ++references_; }
  bool release() const { return --references_ == 0; }
  std::uint32_t references() const { return references_; }

 protected:
  ~LocalCounted() = default;

 private:
  mutable std::uint32_t references_ = 0;
};

/// `T` derives from one of the above and has `static void dispose(const T*)`.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(const T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(const Ref& other) noexcept { return *this = Ref(other); }
  Ref& operator=(Ref&& other) noexcept {
    const T* mine = std::exchange(object_, std::exchange(other.object_, nullptr));
    if (mine != nullptr && mine->release()) T::dispose(mine);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && object_->release()) T::dispose(object_);
  }

  const T* get() const { return object_; }
  const T* operator->() const { return object_; }
  const T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  const T* object_ = nullptr;
};

}  // namespace sluice
