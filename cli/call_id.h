// The `id` of a call's line, which comes back as it was given: numbers that cannot are found.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::cli {

/// The first number in the value of the object's key "id" that would come back as another one,
/// since it has more digits than a float of 64 bits holds; empty: none. `line` is a JSON object.
std::string id_number_that_changes(std::string_view line);

/// Of a line that is not JSON: the byte, from 1, at which that shows.
std::size_t byte_that_is_wrong(std::string_view line);

}  // namespace sluice::cli
