// The role `chat_model`: a checkpoint of any supported family that answers texts and pictures.
//
// `answer` takes a message's pieces one by one, each a text or a picture; a text with the attribute
// `generate` ends the message and is answered, token by token, with the options that came with it.
// All sessions of an instance advance together; a turn reuses the keys and values of all that was
// said before. Source: omni-flow, sections 3 (figure 3) and 5.2.
#pragma once

#include <vector>

#include "roles/catalog.h"

namespace sluice {

Plugin chat_model_plugin();

/// What a `language_model` over such a checkpoint runs: `generate` is `answer` with pictures that a
/// `vision_encoder` has seen; `prefill` reads a message and yields where its answer begins, with
/// which `decode`, of this role or another over the same paged_kv, goes on.
/// `known`: the options that the plugin declares.
Result<RoleInstance> make_chat_role(const RoleMaking& making,
                                    const std::vector<OptionDeclaration>& known);

}  // namespace sluice
