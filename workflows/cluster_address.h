// Where the machines of a cluster file are reached: what their addresses mean, and what is wrong
// with them. Addresses are numeric.
//
// Errors: diagnostics with line and column; see docs/CLUSTER.md for the language.
#pragma once

#include <string_view>

#include "workflows/cluster.h"

namespace sluice {

/// True for an address at which other computers may reach the machine. False for what is none.
bool is_far(std::string_view address);

/// What else the file says, which is missed or not.
struct BesideAddresses {
  bool has_keys = false;
  bool some_unread = false;  // of the addresses: none is said to be missing
};
/// Appends what is wrong. Each address that is none is an error.
void check_addresses(const ClusterSpec& spec, const BesideAddresses& beside,
                     Diagnostics& diagnostics);

}  // namespace sluice
