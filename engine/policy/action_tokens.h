// OpenVLA's actions: words of the vocabulary's end stand for bins.
//
// Source: OpenVLA, section 3.2; its ActionTokenizer for the bins' centres.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/family/architecture.h"

namespace sluice {

/// A value for each token, before it was scaled. Requires: as many tokens as the data set's actions
/// have dimensions, or a multiple.
std::vector<float> actions_of(const Architecture& architecture, const ActionStatistics& statistics,
                              std::span<const std::int32_t> tokens);
/// What they mean for each robot, a line each: `name: value value`. Nothing of data sets whose
/// actions are of another number.
std::string actions_text(const Architecture& architecture, std::span<const std::int32_t> tokens);

}  // namespace sluice
