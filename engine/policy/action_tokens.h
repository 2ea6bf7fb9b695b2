// OpenVLA's actions: words of the vocabulary's end stand for bins.
//
// Source: OpenVLA, section 3.2; its ActionTokenizer for the bins' centres.
#pragma once

#include <span>
#include <vector>

#include "engine/family/architecture.h"

namespace sluice {

/// A value for each token, before it was scaled. Requires: as many tokens as the data set's actions
/// have dimensions, or a multiple.
std::vector<float> actions_of(const Architecture& architecture, const ActionStatistics& statistics,
                              std::span<const std::int32_t> tokens);

}  // namespace sluice
