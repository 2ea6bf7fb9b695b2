// Where a machine is reached, and whether it may be reached there without keys.
//
// Addresses are numeric, so that nothing waits for a resolver and nobody else decides where a name
// leads. Errors: invalid_argument, with the address and what to write instead.
// Source: docs/NETWORK.md; FAILURES, security.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::links {

struct Address {
  bool local = false;  // ipc or loopback: no keys are needed
  bool ipv6 = false;
  std::string directory;  // of an ipc socket
};

/// What the address means. Does not look at the machine.
Result<Address> read_address(const std::string& text);
/// That the directory of an ipc socket is this user's and closed to others.
Result<void> check_directory(const std::string& directory);

}  // namespace sluice::links
