// What the user gives by the name of a file, or through standard input.
//
// Bounds: 40 MiB each. Errors: those of base/file.h and engine/picture/image_file.h; of standard
// input exhausted (it has more), unavailable (it cannot be read).
#pragma once

#include <string>

#include "base/result.h"
#include "base/tensor.h"

namespace sluice::cli {

Result<std::string> read_file(const std::string& path);
/// A PNG or JPEG; errors name the file.
Result<Tensor> read_picture(const std::string& path);
/// The same from standard input, to its end; errors name it.
Result<Tensor> read_input_picture();
/// All of it, to its end.
Result<std::string> read_standard_input();

}  // namespace sluice::cli
