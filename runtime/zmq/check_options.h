// Whether a machine can be what its options say, before anything is made of them.
//
// Errors: invalid_argument, with the option and what is wrong. Source: docs/NETWORK.md, "Keys".
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/zmq/address.h"
#include "runtime/zmq/zmq_transport.h"

namespace sluice::links {

/// The address's meaning, if this machine may bind or dial it.
Result<Address> usable(const std::string& text, bool keyed);
Result<void> check_options(const ZmqOptions& options);

}  // namespace sluice::links
