// What a pool of pages in a role host holds, as bytes on the host's channel.
//
// Bounds: texts are cut to `pool_text_max` bytes, sessions to `PoolReport::sessions_most`. Errors:
// the reader's. Source: base/pool_report.h, docs/HOSTS.md.
#pragma once

#include "base/pool_report.h"
#include "runtime/wire/bytes.h"

namespace sluice::hosts {

inline constexpr std::size_t pool_text_max = 64 << 10;

void put_pool(const PoolReport& report, wire::ByteWriter& writer);
PoolReport read_pool(wire::ByteReader& reader);

}  // namespace sluice::hosts
