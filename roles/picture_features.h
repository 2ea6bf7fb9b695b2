// A picture that a vision encoder has seen, as it travels in a frame to the language model.
//
// Shape: f32 [rows, width], the rows that stand for the picture in the decoder; attributes
// `tile_rows` and `tile_columns` (SmolVLM) and `grid_t`, `grid_h`, `grid_w` (Qwen2.5-VL, in
// patches). Errors: invalid_argument (what does not fit the model that is to read it).
#pragma once

#include "base/payload.h"
#include "engine/family/model.h"
#include "engine/picture/picture_input.h"
#include "roles/role.h"

namespace sluice {

/// For the output `features` of the activation. `width`: of the features' rows. Errors: no memory.
Result<PayloadRef> features_payload(const PictureInput& picture, std::size_t width,
                                    Activation& activation);
/// Nothing in the payload is trusted. Its content is that of the rows and of how they are laid
/// out.
Result<PictureInput> picture_of(const Payload& features, const Model& reader);

}  // namespace sluice
