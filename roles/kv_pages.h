// The pages of a `paged_kv`, as large as its specification says.
#pragma once

#include <memory>

#include "engine/layers/decoder.h"
#include "roles/catalog.h"

namespace sluice {

/// For a decoder of this shape; left out, room for 16,384 tokens. Errors: exhausted (more than the
/// machine has).
Result<std::unique_ptr<KvPool>> make_pages(const DecoderShape& shape, const GlobalParamSpec& spec);

}  // namespace sluice
