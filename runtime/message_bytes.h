// The bytes of a message to or from another machine: a vector, or memory that others count.
//
// So a large message is read where the link's library has received it, and may be sent on from
// there: nothing is copied before somebody wants a vector. Thread: one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/buffer.h"
#include "runtime/wire/bytes.h"

namespace sluice {

class MessageBytes {
 public:
  MessageBytes() = default;
  MessageBytes(wire::Bytes bytes) : own_(std::move(bytes)) {}
  explicit MessageBytes(Ref<Buffer> counted) : counted_(std::move(counted)) {}

  std::span<const std::byte> view() const {
    if (!counted_) return own_;
    return {counted_->data(), counted_->size()};
  }
  std::size_t size() const { return view().size(); }
  /// As a vector; what is counted memory is copied.
  wire::Bytes take() && {
    if (!counted_) return std::move(own_);
    const std::span<const std::byte> bytes = view();
    return {bytes.begin(), bytes.end()};
  }

 private:
  wire::Bytes own_;  // where nothing is counted
  Ref<Buffer> counted_;
};

}  // namespace sluice
