#include "runtime/tcp/tcp_grants.h"

#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace sluice::tcp {

namespace {

constexpr std::size_t large_page = std::size_t{2} << 20U;

}  // namespace

void fill_random(std::byte* to, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::getrandom(to + at, size - at, 0);
    SLUICE_CHECK(got > 0, "the system has no random bytes");
    at += static_cast<std::size_t>(got);
  }
}

std::shared_ptr<Region> Region::make(std::size_t size) {
  if (size == 0 || size > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  const std::size_t all = size + large_page;
  void* const mapped =
      ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapped);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(mapped) % large_page;
  std::byte* const data = first + (past == 0 ? 0 : large_page - past);
  ::madvise(data, size, MADV_HUGEPAGE);  // where there are none it is as before
  return std::make_shared<Region>(data, size, mapped, all);
}

Region::~Region() { ::munmap(mapped_, mapped_bytes_); }

void Region::guide(RegionGuide* guide) {
  const std::lock_guard lock(guided_);
  guide_ = guide;
}

void Region::answer(std::span<const std::byte> question, std::vector<std::byte>& answer) const {
  const std::lock_guard lock(guided_);
  if (guide_ != nullptr) guide_->answer(question, answer);
}

Grants::Made Grants::make(std::shared_ptr<const Region> region) {
  Made made;
  fill_random(reinterpret_cast<std::byte*>(made.secret.data()), made.secret.size());
  const std::lock_guard lock(mutex_);
  do fill_random(reinterpret_cast<std::byte*>(&made.number), sizeof made.number);
  while (grants_.contains(made.number));
  grants_[made.number] = {made.secret, std::move(region)};
  order_.push_back(made.number);
  if (order_.size() > grants_most) {
    grants_.erase(order_.front());
    order_.pop_front();
  }
  return made;
}

std::optional<Grants::Grant> Grants::find(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto it = grants_.find(number);
  if (it == grants_.end() || it->second.region->is_gone()) return std::nullopt;
  return it->second;
}

void Grants::drop_gone() {
  const std::lock_guard lock(mutex_);
  std::erase_if(grants_, [](const auto& one) { return one.second.region->is_gone(); });
  std::erase_if(order_, [&](std::uint64_t number) { return !grants_.contains(number); });
}

}  // namespace sluice::tcp
