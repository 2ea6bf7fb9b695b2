// Brings a picture of any size to the square that a model sees.
//
// Triangle filter, widened when shrinking so that nothing aliases; a picture that is not square is
// centred on the mean colour of its border. Shape: u8 [height, width, 3] to u8 [size, size, 3].
#pragma once

#include "base/tensor.h"

namespace sluice {

/// Errors: invalid_argument when the tensor is not a u8 picture with three channels.
Result<Tensor> resize_to_square(const Tensor& image, std::size_t size);

}  // namespace sluice
