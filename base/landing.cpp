#include "base/landing.h"

#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace sluice {

/// The bytes stand behind the object.
class Landing::Landed final : public Buffer {
 public:
  static constexpr std::size_t head = 64;
  Landed(std::shared_ptr<Landing> of, void* place, std::size_t size)
      : Buffer(static_cast<std::byte*>(place) + head, size, nullptr), of_(std::move(of)) {}

 private:
  void end() override {
    const std::shared_ptr<Landing> of = std::move(of_);
    const std::size_t all = head + size();
    this->~Landed();
    of->give_back(this, all);
  }
  std::shared_ptr<Landing> of_;
};

Landing::~Landing() {
  for (const auto& [size, places] : free_)
    for (void* const place : places) std::free(place);
}

Ref<Buffer> Landing::take(std::size_t size) {
  static_assert(sizeof(Landed) <= Landed::head);
  if (size > std::numeric_limits<std::size_t>::max() - Landed::head) return {};
  const std::size_t all = Landed::head + size;
  void* place = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = free_.find(all); it != free_.end() && !it->second.empty()) {
      place = it->second.back();
      it->second.pop_back();
      // Else its list waits for the next one: most take and give back one size all the time.
      if (it->second.empty() && free_.size() > sizes_most) free_.erase(it);
      kept_ -= all;
    }
  }
  if (place == nullptr) place = std::malloc(all);
  if (place == nullptr) return {};
  return Ref<Buffer>(new (place) Landed(shared_from_this(), place, size));
}

void Landing::give_back(void* place, std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    if (kept_ + size <= kept_most) {
      kept_ += size;
      free_[size].push_back(place);
      return;
    }
  }
  std::free(place);
}

std::size_t Landing::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace sluice
