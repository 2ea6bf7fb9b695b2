// Which type of the language an author meant who wrote another language's word for it.
//
// Pure. Thread: any.
#pragma once

#include <string>

namespace sluice {

/// The type whose name is nearest, or that has this name elsewhere; empty: none.
std::string meant_type(const std::string& given);

}  // namespace sluice
