// What the pages of a soak hold, and what came of reading them.
//
// A page's content follows from its number, so whoever reads it knows whether it is right. Every
// second one is its neighbour but for a few lines of 64 bytes: a mixture of the two is hard to tell
// from either.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "dataplane/page_key.h"

namespace sluice::soak {

inline constexpr std::size_t page_bytes = std::size_t{64} << 10U;

inline PageKey key_of(std::size_t number) {
  return {{number + 1, number * 3 + 1, number ^ 0x5555U, 1}};
}
inline std::size_t number_of(const PageKey& key) { return key.words[0] - 1; }

class Contents {
 public:
  explicit Contents(std::size_t count) : bytes_(count * page_bytes) {
    SplitMix64 random(1);
    for (std::size_t number = 0; number < count; ++number) {
      std::byte* const page = bytes_.data() + number * page_bytes;
      const auto fill = [&](std::size_t from, std::size_t size) {
        for (std::size_t at = from; at < from + size; at += 8) {
          const std::uint64_t word = random.next();
          std::memcpy(page + at, &word, 8);
        }
      };
      if (number % 2 == 0) {
        fill(0, page_bytes);
      } else {
        std::memcpy(page, page - page_bytes, page_bytes);
        for (std::size_t lines = 1 + random.next() % 8; lines > 0; --lines)
          fill(random.next() % (page_bytes / 64) * 64, 64);
      }
      sums_.push_back(crc32c(of(number)));
    }
  }

  std::size_t count() const { return sums_.size(); }
  std::span<const std::byte> of(std::size_t number) const {
    return std::span(bytes_).subspan(number * page_bytes, page_bytes);
  }
  std::uint32_t sum(std::size_t number) const { return sums_[number]; }
  bool are(std::span<const std::byte> content, std::size_t number) const {
    return content.size() == page_bytes &&
           std::memcmp(content.data(), of(number).data(), page_bytes) == 0;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::uint32_t> sums_;
};

struct Tally {
  std::uint64_t reads = 0;       // pages that came and were looked at
  std::uint64_t detected = 0;    // of those, refused
  std::uint64_t undetected = 0;  // taken with other bytes than were published
  std::uint64_t replaced = 0;    // pages given up for others meanwhile, or segments
  std::uint64_t restarts = 0;
  double seconds = 0;

  void add(const Tally& other) {
    reads += other.reads;
    detected += other.detected;
    undetected += other.undetected;
    replaced += other.replaced;
    restarts += other.restarts;
  }
};

/// `is_blind`: the readers are given checksums of what they have, not of what was published, so
/// nothing is detected: shows that the soak would see it.
struct Options {
  std::uint64_t memory = 0, ucx = 0, sockets = 0, sealed = 0, mapped = 0, tcp = 0,
                ssd = 0;  // reads
  std::string folder;     // made and removed
  bool is_blind = false;
};

Tally read_memory(const Options& options);
Tally read_ucx(const Options& options);
/// Where they stand, over tcp; in the clear and encrypted.
Tally read_sockets(const Options& options);
Tally read_sealed(const Options& options);
Tally read_mapped(const Options& options);
Tally read_tcp(const Options& options);
Tally read_ssd(const Options& options);
/// The other side of `read_tcp`, in a process of its own that is killed.
int serve_tcp(const std::string& address, const std::string& client, std::uint32_t incarnation,
              bool is_blind);

}  // namespace sluice::soak
