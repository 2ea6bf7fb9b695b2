// Which checkpoint it is: equal names mean the same files, as they lay when they were named.
//
// Of names, sizes, times of change and places in the file system, not of bytes: a copy is another
// checkpoint, and a file that is written anew is too. For one machine.
#pragma once

#include <string>

namespace sluice {

/// `path`: a file, or a directory whose files count. Empty: it cannot be read.
std::string checkpoint_identity(const std::string& path);

}  // namespace sluice
