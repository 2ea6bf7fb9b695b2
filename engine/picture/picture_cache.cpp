#include "engine/picture/picture_cache.h"

#include <algorithm>

#include "base/sha256.h"

namespace sluice {

namespace {

std::size_t bytes_of(const PictureInput& picture) {
  return (picture.pixels.size() + picture.features.size()) * sizeof(float);
}

}  // namespace

std::string picture_content(const Tensor& picture, const std::string& tenant) {
  const auto bytes = picture.bytes();
  std::string text = picture.describe() + '\n';
  if (!tenant.empty()) text += "of " + tenant + '\n';
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto digest = sha256(text);
  return {digest.begin(), digest.end()};
}

const PictureInput* PictureCache::find(const std::string& content) {
  const auto it = std::ranges::find(kept_, content, &PictureInput::content);
  if (it == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, it);
  return &kept_.front();
}

void PictureCache::keep(const PictureInput& picture) {
  if (bytes_of(picture) > bytes_max_ || find(picture.content) != nullptr) return;
  bytes_ += bytes_of(picture);
  kept_.push_front(picture);
  for (; bytes_ > bytes_max_; kept_.pop_back()) bytes_ -= bytes_of(kept_.back());
}

}  // namespace sluice
