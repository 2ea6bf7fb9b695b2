// The plugin `scripted`: a role that stands for one which is still to be written.
//
// Its interfaces and fields are whatever the workflow says. It runs in scenarios and simulations,
// where every role is a script; anything else is an error that says so.
#pragma once

#include "roles/catalog.h"

namespace sluice {

Plugin scripted_plugin();

}  // namespace sluice
