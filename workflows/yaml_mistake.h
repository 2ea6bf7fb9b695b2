// Why a text is no YAML, in an author's words: where a parser gives up is seldom where the mistake
// is. Private to workflows/.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "graph/diagnostic.h"

namespace sluice {

/// The line and column of a byte of the text.
Mark place_of(std::string_view text, std::size_t byte);

/// Where the line of this byte begins.
std::size_t line_of(std::string_view text, std::size_t byte);
/// The length of a space at the beginning of `text` that is none for YAML; 0: there is none.
std::size_t wide_space(std::string_view text);
/// An error at a byte.
Diagnostic syntax(std::string_view text, std::size_t byte, std::string message,
                  std::string suggestion);

/// What keeps the bytes from being text: another encoding, control bytes. Nothing: it is UTF-8.
std::optional<Diagnostic> wrong_bytes(std::string_view text);

/// Lines that are no YAML's: ends of another system, each marked as a difference or a quotation.
std::optional<Diagnostic> wrong_lines(std::string_view text);

/// A '-' without its space, which YAML takes for a part of a word.
Diagnostic glued_dash(std::string_view text, std::size_t byte);

/// True when the quote at `byte` is closed before the text ends (the parser takes the rest for it).
bool quote_closes(std::string_view text, std::size_t byte);
Diagnostic unclosed_quote(std::string_view text, std::size_t byte);

/// True when `text` begins with a space that YAML takes for a letter (copied from a web page).
bool is_wide_space(std::string_view text);
Diagnostic wide_space_mistake(std::string_view text, std::size_t byte);

/// An unclosed quote or bracket, a tab, an indent that fits nothing, the mark of a merge; otherwise
/// the parser's words, at `byte`, where it gave up.
Diagnostic syntax_mistake(std::string_view text, std::size_t byte, const std::string& parser);

}  // namespace sluice
