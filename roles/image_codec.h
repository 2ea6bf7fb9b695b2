// The role `image_codec`: pictures to latents and latents to pictures.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin image_codec_plugin();

}  // namespace sluice
