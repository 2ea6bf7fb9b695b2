// What a node has told the home of one call about what does not come: so that it tells only news.
//
// Bounds: at most twice for each field of a join, once for each output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

class CallNews {
 public:
  /// A bucket of this group, of so many, lacked these fields. True when that is news.
  bool lacks(std::size_t groups, std::uint16_t group, std::uint64_t fields) {
    groups_.resize(groups);
    Missing& told = groups_[group];
    if (ran_ || ((fields & ~told.some) == 0 && (told.all & ~fields) == 0)) return false;
    told.some |= fields;
    told.all &= fields;
    return true;
  }
  /// The node runs. True when something was told that is to be taken back.
  bool runs() {
    const bool told = !ran_ && !groups_.empty();
    ran_ = true;
    return told;
  }
  /// An activation left out these outputs. True when that is news.
  bool leaves_out(std::uint64_t outputs) {
    if (silent_ && (left_out_ & ~outputs) == 0) return false;
    left_out_ = silent_ ? left_out_ & outputs : outputs;
    return silent_ = true;
  }
  /// Of those that each such activation left out.
  std::uint64_t left_out() const { return left_out_; }
  void clear() {
    groups_.clear();
    ran_ = silent_ = false;
    left_out_ = 0;
  }

 private:
  struct Missing {
    std::uint64_t some = 0;                 // fields that one bucket lacked or another
    std::uint64_t all = ~std::uint64_t{0};  // that all of them lacked
  };
  std::vector<Missing> groups_;
  bool ran_ = false;
  bool silent_ = false;
  std::uint64_t left_out_ = 0;
};

}  // namespace sluice
