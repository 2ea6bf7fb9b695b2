// Runs a checkpoint on given inputs and returns every stage's outputs, for comparison with a
// reference.
//
// Names and shapes are listed in docs/MODELS.md; they follow Hugging Face `transformers`, and
// openpi for pi0 and pi0.5. Rows that the inputs mask are not computed and come out as zeros.
// Errors: invalid_argument (which input is missing or does not fit).
#pragma once

#include "engine/checkpoint/named_tensors.h"
#include "engine/family/model.h"

namespace sluice {

/// `kv`: what keys and values are kept in, f32 or bf16.
Result<NamedTensors> run_model(const Model& model, const NamedInputs& inputs,
                               Dtype kv = Dtype::f32);

}  // namespace sluice
