// Memory to read into that is used again: what is new has to be given by the system page by page.
//
// Owns: what nobody has, at most `kept_most` bytes; what was given back last is given out first,
// while it is in the cache. Thread: any. Units: bytes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/buffer.h"

namespace sluice {

class Landing : public std::enable_shared_from_this<Landing> {
 public:
  static constexpr std::size_t kept_most = std::size_t{64} << 20U;
  static constexpr std::size_t sizes_most = 16;  // of which nothing is kept, and that are known

  ~Landing();
  Landing() = default;
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  /// With whatever stands in it; it may outlive this. Null: there is not so much.
  Ref<Buffer> take(std::size_t size);
  /// Bytes that nobody has.
  std::size_t kept() const;

 private:
  class Landed;
  void give_back(void* place, std::size_t size);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  std::size_t kept_ = 0;
};

}  // namespace sluice
