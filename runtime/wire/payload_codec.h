// A frame's value as bytes of a message, and back.
//
// Shape: a tensor's bytes are exactly those of its dtype and shape, computed with checks, or it is
// refused; nothing is allocated for bytes that the message does not hold. Thread: one
// for each reader and writer. Errors: of reading, in the reader. Source: docs/WIRE.md, "The form".
#pragma once

#include "base/payload.h"
#include "base/result.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/lending.h"

namespace sluice::wire {

/// Errors: exhausted, for more attributes than `attributes_max`.
Result<void> put_payload(const Payload& payload, ByteWriter& writer, Lending& lending);
/// `bytes_max`: of what all values of the message borrow. Null when the reader has failed.
PayloadRef read_payload(ByteReader& reader, Lending& lending, std::size_t bytes_max);

/// The same where all bytes stand in the message.
inline Result<void> put_payload(const Payload& payload, ByteWriter& writer) {
  Lending none;
  return put_payload(payload, writer, none);
}
inline PayloadRef read_payload(ByteReader& reader) {
  Lending none;
  return read_payload(reader, none, 0);
}

}  // namespace sluice::wire
