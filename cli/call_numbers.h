// Numbers in a call's line that a float of 64 bits does not hold, so they would go on as others: in
// its `id`, which comes back as it was given, and in its JSON inputs. And of a line that cannot be
// read: why.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

/// The first number in the value of the object's key that would become another one, since it has
/// more digits than a float of 64 bits holds; empty: none. `line` is a JSON object. With `member`:
/// in that member of the value only.
std::string number_that_changes(std::string_view line, std::string_view key,
                                std::string_view member = {});

/// Of a line that cannot be read as JSON: why, with the byte, from 1, at which that shows; of one
/// that is a comment, that there are none.
std::string what_is_wrong(std::string_view line);

}  // namespace sluice::cli
