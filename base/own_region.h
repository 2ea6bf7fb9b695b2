// Memory of a region that its owner gives others to read, as a counted buffer of this process.
//
// When its last reference goes, its owner lets go of the region, unless that has gone itself.
// `Owner` has `let_go(Region&)`, `Region` has `data()` and `size()`. Thread: any.
#pragma once

#include <memory>
#include <utility>

#include "base/buffer.h"

namespace sluice {

template <typename Owner, typename Region>
class OwnRegion final : public Buffer {
 public:
  OwnRegion(std::shared_ptr<Region> region, const std::shared_ptr<Owner>& owner)
      : Buffer(region->data(), region->size(), owner.get()),
        region_(std::move(region)),
        owner_(owner) {}
  const std::shared_ptr<Region>& region() const { return region_; }

 private:
  void end() override {
    if (const std::shared_ptr<Owner> owner = owner_.lock()) owner->let_go(*region_);
    delete this;
  }

  const std::shared_ptr<Region> region_;
  const std::weak_ptr<Owner> owner_;
};

}  // namespace sluice
