// Bytes from outside to a value of the type that a workflow declares for an input.
//
// Errors: invalid_argument, corrupt or exhausted, with what the type needs; the caller knows where
// the bytes came from.
#pragma once

#include <string>
#include <string_view>

#include "base/payload.h"
#include "base/result.h"

namespace sluice::cli {

/// True for what comes in files of its own kind: an image (PNG, JPEG), audio or a tensor (.npy).
bool is_file_type(ValueType type);

/// Text as it is, JSON checked, a number of a line; else a file's bytes decoded.
Result<PayloadRef> value_of(ValueType type, std::string bytes);

/// The text itself, where it is UTF-8. Errors: behind `name`.
Result<std::string> checked_text(const std::string& name, std::string text);

/// "--input x=@FILE, a .npy file", to say how a value of the type is given.
std::string how_to_give(std::string_view name, ValueType type);

}  // namespace sluice::cli
