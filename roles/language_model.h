// The role `language_model`: words and pictures in, words out, token by token.
//
// Over a model that draws: `embed` turns text into the decoder's rows; `generate` appends them, or
// a picture's features, to the session's conversation, and answers when the text says so (attribute
// `generate`). Over a checkpoint that answers: `generate`, `prefill` and `decode` as `chat_role.h`
// says. Over a robot policy: `prefill` as `policy_role.h` says. All sessions of an instance advance
// together, one ragged forward a step. Source: omni-flow, sections 3 (figure 3) and 5.2.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin language_model_plugin();

}  // namespace sluice
