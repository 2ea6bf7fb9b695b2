// Keys and the ':' behind them: one that is missing, glued to its value, or one too many in a line.
//
// Each looks for one mistake, in the text and at the byte at which the parser gave up. Nothing: it
// is another one. Errors: diagnostics with line and column. Private to workflows/.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "graph/diagnostic.h"

namespace sluice {

/// A key that is too long for the parser, which then does not expect the ':' at `byte`.
std::optional<Diagnostic> long_key(std::string_view text, std::size_t byte);

/// What is missing behind the key at `at`; nothing: it has its ':' and a space, or is no key.
std::optional<Diagnostic> key_without_colon(std::string_view text, std::size_t at);

/// A line that has nothing but the word at `at`, where a key must stand.
std::optional<Diagnostic> word_without_colon(std::string_view text, std::size_t at);

/// A key without its ':', in the line of this bracket or above the one in which the parser met a
/// ':' that it did not expect.
std::optional<Diagnostic> missing_colon(std::string_view text, std::size_t byte,
                                        std::optional<std::size_t> bracket);

/// A list or a map within a flow whose key has a ':' without a space, a '=' or no sign.
std::optional<Diagnostic> glued_bracket(std::string_view text, std::size_t byte,
                                        std::optional<std::size_t> outer);

/// A bracket behind `name:`, of which the parser makes one word.
bool is_glued_key(std::string_view text, std::size_t bracket);

/// `name:value` in the line above the one in which the parser met a ':' it did not expect.
std::optional<Diagnostic> glued_above(std::string_view text, std::size_t byte);

/// `outputs: out: a.x`, where the parser did not expect the second ':'.
std::optional<Diagnostic> two_keys(std::string_view text, std::size_t byte);

}  // namespace sluice
