// The `id` of a call's line, which comes back as it was given: numbers that cannot are found.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

/// The first number in the value of the object's key "id" that would come back as another one,
/// since it has more digits than a float of 64 bits holds; empty: none. `line` is a JSON object.
std::string id_number_that_changes(std::string_view line);

}  // namespace sluice::cli
