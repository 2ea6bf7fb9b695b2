// Parts of `run_model`, by what the model is. For model_check*.cpp only.
#pragma once

#include "engine/check/model_check.h"

namespace sluice {

Result<NamedTensors> run_diffusion(const Model& model, const NamedInputs& inputs);
Result<NamedTensors> run_vae(const Model& model, const NamedInputs& inputs);

}  // namespace sluice
