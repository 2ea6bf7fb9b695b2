// A vision tower on the device: pictures to rows that stay there.
//
// Shape: pixels f32 [pictures, 3, side, side] on the host, as the family's preprocessing leaves
// them; rows [pictures * patches, width] on the device. Pictures do not see each other, so a batch
// equals pictures one by one. Errors: exhausted (the device's memory). Thread: as `DeviceWork`.
// Source: SigLIP (Zhai et al. 2023).
#pragma once

#include <span>

#include "engine/device/device_layers.h"
#include "engine/layers/tower.h"

namespace sluice {

template <typename T>
class DeviceTower {
 public:
  /// Borrows `work`. Requires: neither class token nor registers.
  DeviceTower(const TowerShape& shape, DeviceWork& work);
  void load(const TowerNames& names, WeightLoader& load, Uploader& up);

  /// The rows are the tower's, until the next call. Requires: whole pictures, at least one.
  Result<const T*> encode(std::span<const float> pixels);

 private:
  Result<void> make_room(std::size_t pictures);

  TowerShape shape_;
  DeviceWork& work_;
  DeviceLayers<T> layers_;
  DeviceLinear patch_;
  device::Memory positions_;            // and the patches' bias: [patches, width]
  device::Memory pixels_, cut_, rows_;  // patches as they come, as they are multiplied; rows out
  std::optional<DeviceKv> kv_;          // of one layer: nobody reads a tower's keys after it
};

}  // namespace sluice
