// What a robot is told, as the text that its policy was trained on.
//
// Shape: state [dims], each value scaled to [-1, 1]. Errors: none. Thread: any.
// Source: openpi's PaligemmaTokenizer (pi0, pi0.5), lerobot's SmolVLA; pi0.5, section IV, and
// OxyGen for what its trunk is asked in words.
#pragma once

#include <span>
#include <string>

#include "engine/family/architecture.h"

namespace sluice {

/// pi0.5 reads its state as words, in bins of 1/128 from -1 on (below: -1); without one, and for
/// the other families, the prompt is the instruction and an end of line.
std::string policy_prompt(Family family, std::string_view instruction,
                          std::span<const float> state);

/// pi0.5's question for what to do next on the way to what it was told; the words behind it are the
/// trunk's. It reads no state.
std::string subtask_prompt(std::string_view instruction);

}  // namespace sluice
