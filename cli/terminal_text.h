// Text of others, such as a model's or a file's, as a terminal may be given it.
//
// Control characters (those of ASCII but newline and tab, and U+0080 to U+009F) command a terminal:
// they would move its cursor, or write its title.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

/// Without them.
std::string plain_text(std::string_view text);
/// With `\x1b` and the like in their places, for messages.
std::string escaped_text(std::string_view text);
/// The same on one line: newlines and tabs too.
std::string escaped_line(std::string_view text);

}  // namespace sluice::cli
