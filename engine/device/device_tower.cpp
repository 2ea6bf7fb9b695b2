#include "engine/device/device_tower.h"

#include "base/check.h"

namespace sluice {

namespace {

DecoderShape as_decoder(const TowerShape& tower) {
  DecoderShape shape;
  shape.block = tower.block;
  shape.layers = tower.layers;
  shape.positions_max = tower.patches();
  return shape;
}

}  // namespace

template <typename T>
DeviceTower<T>::DeviceTower(const TowerShape& shape, DeviceWork& work)
    : shape_(shape), work_(work), layers_(as_decoder(shape), work) {}

template <typename T>
void DeviceTower<T>::load(const TowerNames& names, WeightLoader& load, Uploader& up) {
  const std::size_t width = shape_.block.width;
  Linear patch = load.linear(names.patch, width, 3 * shape_.patch * shape_.patch, true);
  std::vector<float> positions = load.values(names.positions, shape_.patches() * width);
  if (!load.outcome().ok()) return;
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] += patch.bias[i % width];
  patch.bias.clear();
  patch_ = up.linear(patch);
  positions_ = up.floats(positions);
  layers_.load({"", names.layers, names.norm, "", names.block}, load, up, shape_.final_norm);
}

template <typename T>
Result<void> DeviceTower<T>::make_room(std::size_t pictures) {
  const std::size_t rows = pictures * shape_.patches();
  Room room;
  room.need(pixels_, rows * patch_.in * sizeof(float));
  room.need(cut_, rows * patch_.in * sizeof(T));
  room.need(rows_, rows * shape_.block.width * sizeof(T));
  if (!room.outcome().ok()) return room.outcome();
  if (kv_.has_value() && kv_->pages.pages() >= pictures) return {};
  kv_.reset();
  // A page holds a picture.
  Result<DeviceKv> kv = layers_.make_kv(shape_.patches(), pictures, 1);
  if (!kv.ok()) return kv.error();
  kv_ = std::move(kv).value();
  return {};
}

template <typename T>
Result<const T*> DeviceTower<T>::encode(std::span<const float> pixels) {
  const std::size_t picture = 3 * shape_.side * shape_.side;
  const std::size_t pictures = pixels.size() / picture;
  SLUICE_CHECK(pictures != 0 && pixels.size() == pictures * picture,
               "pictures must have the tower's size");
  if (Result<void> made = make_room(pictures); !made.ok()) return made.error();
  std::vector<KvSequence> sequences(pictures);
  std::vector<DeviceChunk> chunks;
  for (KvSequence& sequence : sequences)
    chunks.push_back({&sequence, shape_.patches(), Mask::block});
  if (Result<void> placed = layers_.place(*kv_, chunks); !placed.ok()) return placed.error();
  std::vector<float> cut(pixels.size());
  cut_patches(pixels, 3, shape_.side, shape_.patch, cut);
  work_.put(pixels_, cut);
  const std::size_t rows = layers_.rows();
  const std::size_t width = shape_.block.width;
  device::gather_rows(pixels_.as<float>(), nullptr, rows, patch_.in, 1, cut_.as<T>(),
                      work_.stream());
  Result<void> done = work_.apply(patch_, cut_.as<T>(), layers_.hidden(), rows);
  // All positions of a picture are one row's bias.
  device::add_bias(layers_.hidden(), positions_.as<float>(), pictures, shape_.patches() * width,
                   work_.stream());
  if (done.ok()) done = layers_.run(*kv_, Until::rows);
  if (shape_.final_norm)
    layers_.norm(rows_.as<T>());
  else
    device::gather_rows(layers_.hidden(), nullptr, rows, width, 1, rows_.as<T>(), work_.stream());
  for (KvSequence& sequence : sequences) kv_->pages.truncate(sequence, 0);
  if (!done.ok()) return done.error();
  return rows_.as<T>();
}

template class DeviceTower<float>;
template class DeviceTower<device::Bf16>;

}  // namespace sluice
