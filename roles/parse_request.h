// The role `parse_request`: a JSON request to a stream of pieces, each text or picture.
//
// Request: {"content": [{"type": "text", "text": ...},
// {"type": "image", "data": BASE64, "name": ...}], "options": {max_tokens, temperature, top_k,
// top_p, seed, steps, guidance, strength, step, tenant}}. Pieces leave in order, one frame each;
// the last is a text with attribute `generate` and the options. `step` stands on the first one too,
// an empty text where there are several, and the tenant on each (`roles/tenant.h`). Errors: what is
// wrong, in which field, and the limit. Nothing is fetched or read from disk. Source: omni-flow,
// section 5.1 (`step`: incremental matching).
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin parse_request_plugin();

}  // namespace sluice
