// OpenVLA's actions: words of the vocabulary's end stand for bins.
//
// A token is the centre of its bin, from -1 to 1; the statistics of the data set that the robot was
// trained with say what that is in the robot's units. Errors: invalid_argument (statistics that the
// checkpoint lacks, naming those it has). Thread: any; no state.
// Source: OpenVLA, section 3.2; its ActionTokenizer for the bins' centres, its `predict_action` for
// which statistics are meant where nobody says.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/family/architecture.h"

namespace sluice {

/// Those of the data set of this name; empty: the only ones. They have a value at least.
Result<const ActionStatistics*> statistics_named(const Architecture& architecture,
                                                 std::string_view dataset);
/// How many of them stand for no bin: words, which count as the bin that is next to them.
std::size_t words_among(const Architecture& architecture, std::span<const std::int32_t> tokens);

/// A value for each token, before it was scaled. Requires: as many tokens as the data set's actions
/// have dimensions, or a multiple.
std::vector<float> actions_of(const Architecture& architecture, const ActionStatistics& statistics,
                              std::span<const std::int32_t> tokens);
/// What they mean for each robot, a line each: `name: value value`. Nothing of data sets whose
/// actions are of another number.
std::string actions_text(const Architecture& architecture, std::span<const std::int32_t> tokens);

}  // namespace sluice
