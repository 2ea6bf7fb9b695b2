// Sources that most likely mean an output whose name was refused where it is declared.
//
// Pure. Thread: any.
#pragma once

#include "graph/fields_read.h"

namespace sluice {

/// Of each node that has such names: the fields that are read of it and are none of its outputs,
/// but may be them. That a node does not have these has been said already.
FieldsByNode read_as_refused(const WorkflowSpec& spec);

}  // namespace sluice
