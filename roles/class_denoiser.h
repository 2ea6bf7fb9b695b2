// The role `class_denoiser`: latents of a picture of a class, drawn by a DiT.
//
// `draw` takes the class' number, and noise if the caller has its own; an `image_codec` over the
// VAE that belongs to the checkpoint makes a picture of the latents. Drawings that are under way
// advance in the same forwards, each at its own step: those of all roles over one `paged_kv`, or of
// this role, which then has an engine of its own. Shape: noise and latents f32 [channels, side,
// side]. Source: Peebles and Xie 2023.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin class_denoiser_plugin();

}  // namespace sluice
