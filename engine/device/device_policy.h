// A robot's policy on a GPU: pictures go up, actions come down, and nothing else in between.
//
// The tower, the trunk and the action expert share one pool of pages there. All flow steps of a
// control cycle are recorded for each number of steps and requests, and then launched as one;
// lengths, times and page tables are data, so a recording serves any prefix. The projections of
// actions and time into the expert are folded into one at load.
// Shape, errors: as `PolicyEngine`; unavailable (no device), exhausted (its memory, pages),
// invalid_argument (a tower with class tokens). Thread: one caller at a time.
// Source: docs of `FlowPolicy`; omni-flow, section 5.3.
#pragma once

#include <memory>

#include "engine/device/device_decoder.h"
#include "engine/policy/policy_engine.h"

namespace sluice {

/// `pages` of `page_tokens` tokens for prefixes and the rows that act. Borrows the file.
Result<std::unique_ptr<PolicyEngine>> load_device_policy(const Architecture& architecture,
                                                         const SafetensorsFile& file,
                                                         DeviceDecoder::Precision precision,
                                                         std::size_t page_tokens,
                                                         std::size_t pages);

}  // namespace sluice
