// The known name that a mistyped one most likely means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Edits (insert, delete, replace, swap neighbours) between two names.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, when it is near enough to be meant; otherwise empty.
std::string nearest_name(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace sluice
