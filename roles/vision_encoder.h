// The role `vision_encoder`: a picture of any size to feature tokens for the language model.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin vision_encoder_plugin();

}  // namespace sluice
