// NumPy's .npy files to tensors, and tensors to .npy.
//
// Bytes are not trusted: the header's size, the shape and the length that follows from both are
// checked before anything is allocated. Numbers are little-endian and in C order: u8 (|u1),
// i32 (<i4), i64 (<i8), f32 (<f4); a bf16 tensor is written as f32, which holds it exactly.
// Bounds: a header of 64 KiB, 8 dimensions.
// Errors: invalid_argument (no .npy file, numbers or an order that a tensor does not have), corrupt
// (truncated or damaged). The message says what, not where: the caller knows the file's name.
// Source: NumPy's numpy/lib/format.py, versions 1.0 to 3.0.
#pragma once

#include <string>
#include <string_view>

#include "base/tensor.h"

namespace sluice {

Result<Tensor> decode_npy(std::string_view bytes);
/// Version 1.0, as numpy.save writes it.
std::string encode_npy(const Tensor& tensor);

}  // namespace sluice
