// Whether reading pages back is quicker than computing their tokens anew, by what both cost lately.
//
// What is not known is tried; so is, now and then, what did not pay the last time, for a disk that
// was busy gets quick again. Units: nanoseconds, bytes, tokens. Thread: one.
#pragma once

#include <cstdint>
#include <optional>

namespace sluice {

class ReadGuard {
 public:
  static constexpr std::uint32_t tries_after = 16;  // refusals

  /// A read of so many bytes took so long, from the question to the last page.
  void learn(std::uint64_t bytes, std::int64_t took);
  /// `compute`: what the tokens cost otherwise; none: not known.
  bool pays(std::uint64_t bytes, std::optional<std::int64_t> compute);
  /// The same, without a try now and then.
  bool is_quicker(std::uint64_t bytes, std::optional<std::int64_t> compute) const;
  /// Of a read of so many bytes. None: nothing was read yet.
  std::optional<std::int64_t> cost(std::uint64_t bytes) const;

 private:
  double bytes_ = 0, took_ = 0;  // weighted sums
  std::uint32_t refused_ = 0;
};

}  // namespace sluice
