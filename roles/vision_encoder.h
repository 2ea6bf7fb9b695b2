// The role `vision_encoder`: a picture of any size to feature tokens for the language model.
//
// Over any checkpoint that has a tower. `encode` takes one picture, which is encoded once while
// there is room for what it became; `encode_cameras` takes what a robot's cameras see, in their
// order. With a `paged_kv` it has no weights of its own: its encodings are tasks in the engine of
// those who share that. Shape: f32 [rows, width], as `picture_features.h` says.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin vision_encoder_plugin();

}  // namespace sluice
