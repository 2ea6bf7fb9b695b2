// What a node brings of the inputs of which its role reads one frame (`PortFrames`).
#pragma once

#include "graph/declaration.h"
#include "graph/diagnostic.h"
#include "graph/spec.h"

namespace sluice {

/// An error for each input that a group of the node lacks, and for each count above or below what
/// the role reads. A number that comes in a call is looked at in the call, by the engine.
void check_frames(const NodeSpec& node, const InterfaceDeclaration& interface,
                  Diagnostics& diagnostics);

}  // namespace sluice
