// Which checkpoint it is: equal names mean the same files, as they lay when they were named.
//
// For one machine: of names, sizes, times of change and places in the file system, so that a copy
// is another checkpoint, and a file that is written anew is too. For several: of names and bytes.
#pragma once

#include <string>

namespace sluice {

/// `path`: a file, or a directory. Of a directory those files count that a checkpoint is read from:
/// its configuration, weights, tokenizer, chat template and preprocessing; what else lies there, or
/// below it, may change. Empty: it cannot be read.
std::string checkpoint_identity(const std::string& path);
/// The same for equal files wherever they lie. Reads all of them. No protection against who may
/// write them.
std::string checkpoint_content(const std::string& path);

}  // namespace sluice
