// The role `denoiser`: draws latents by flow matching over the language model's own layers and KV.
//
// The session's pages are read in place; the latents' own keys and values are scratch. With
// guidance a second sequence without words runs in the same ragged forward. Source: omni-flow,
// section 5.3 (diffusion reusing the LLM path).
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin denoiser_plugin();

}  // namespace sluice
