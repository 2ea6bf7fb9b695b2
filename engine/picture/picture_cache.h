// What pictures became, by their content: a picture that comes again is not encoded again.
//
// Of one model and one preparation. The one that was not asked for longest goes first.
// Bounds: bytes. Thread: one.
#pragma once

#include <list>
#include <string>

#include "engine/picture/picture_input.h"

namespace sluice {

/// Hash of a picture's shape and bytes; of one tenant's, another one than of all others': whether
/// somebody else has shown a picture nobody can tell by how soon it is looked at.
std::string picture_content(const Tensor& picture, const std::string& tenant = {});

class PictureCache {
 public:
  explicit PictureCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Null: not there.
  const PictureInput* find(const std::string& content);
  /// By `picture.content`; what is larger than all there is room for is not kept.
  void keep(const PictureInput& picture);
  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return kept_.size(); }

 private:
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::list<PictureInput> kept_;  // the last asked for first
};

}  // namespace sluice
