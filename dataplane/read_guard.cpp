#include "dataplane/read_guard.h"

namespace sluice {

void ReadGuard::learn(std::uint64_t bytes, std::int64_t took) {
  constexpr double kept = 0.917;  // half of a read's weight is gone after eight others
  bytes_ = kept * bytes_ + static_cast<double>(bytes);
  took_ = kept * took_ + static_cast<double>(took);
}

std::optional<std::int64_t> ReadGuard::cost(std::uint64_t bytes) const {
  if (bytes_ <= 0) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<double>(bytes) * took_ / bytes_);
}

bool ReadGuard::is_quicker(std::uint64_t bytes, std::optional<std::int64_t> compute) const {
  const std::optional<std::int64_t> read = cost(bytes);
  return !read.has_value() || !compute.has_value() || *read < *compute;
}

bool ReadGuard::pays(std::uint64_t bytes, std::optional<std::int64_t> compute) {
  if (is_quicker(bytes, compute) || refused_ == tries_after) {
    refused_ = 0;
    return true;
  }
  ++refused_;
  return false;
}

}  // namespace sluice
