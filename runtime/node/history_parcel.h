// The values of control parcels that tell, ask and answer what was said in a session, as bytes.
//
// Errors: corrupt, with the place; every length is checked against the bytes that are there before
// anything is allocated. Thread: any. Source: docs/WIRE.md, "What was said in sessions".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/session_history.h"
#include "runtime/wire/bytes.h"

namespace sluice {

/// Of `Control::Kind::history_told`. `call`: its number at its home. The role is that of the
/// parcel's node.
struct ToldParcel {
  std::uint64_t call = 0;
  ToldHistory told{};
};

/// Of `Control::Kind::history_asked`, for the first activation of that call.
struct AskedParcel {
  std::uint64_t call = 0;
  HistoryMark has{};
};

wire::Bytes encode_told(const ToldParcel& parcel);
Result<ToldParcel> decode_told(std::span<const std::byte> bytes);
wire::Bytes encode_asked(const AskedParcel& parcel);
Result<AskedParcel> decode_asked(std::span<const std::byte> bytes);
wire::Bytes encode_kept(const KeptHistory& kept);
Result<KeptHistory> decode_kept(std::span<const std::byte> bytes);

}  // namespace sluice
