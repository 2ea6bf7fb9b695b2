// Any bytes as what nodes tell each other besides messages: each parcel is refused with a reason,
// or is written as the same bytes again; so is what stands in it of replicas and of histories.
#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/node/control.h"
#include "runtime/node/history_parcel.h"
#include "runtime/replicas/parcel.h"

using namespace sluice;

namespace {

void must(bool holds) {
  if (!holds) __builtin_trap();
}

/// What was read, unless it was refused.
template <typename Value>
const Value* taken(const Result<Value>& read) {
  if (read.ok()) return &*read;
  must(!read.error().message.empty());
  return nullptr;
}

void take_replica(const Control& control, std::span<const std::byte> whole) {
  wire::Lending lending;
  const Result<ReplicaParcel> read = decode_replica(whole.subspan(control.body), lending);
  if (taken(read) == nullptr) return;
  const std::size_t weight = weight_of(whole.size(), lending);
  must(weight >= whole.size());
  ReplicaParcel parcel = *read;
  parcel.workflow = control.workflow;
  const Result<wire::Bytes> again = encode_replica(parcel, lending);
  must(again.ok() && std::ranges::equal(*again, whole));
}

void take_history(const Control& control) {
  const std::span<const std::byte> value = control.value;
  if (control.kind == Control::Kind::history_told) {
    const Result<ToldParcel> read = decode_told(value);
    if (taken(read) != nullptr) must(std::ranges::equal(encode_told(*read), value));
  } else if (control.kind == Control::Kind::history_asked) {
    const Result<AskedParcel> read = decode_asked(value);
    if (taken(read) != nullptr) must(std::ranges::equal(encode_asked(*read), value));
  } else if (control.kind == Control::Kind::history_kept) {
    const Result<KeptHistory> read = decode_kept(value);
    if (taken(read) != nullptr) must(std::ranges::equal(encode_kept(*read), value));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> whole = std::as_bytes(std::span(data, size));
  const Result<Control> read = decode_control(whole);
  if (taken(read) == nullptr) return 0;
  const wire::Bytes again = encode_control(*read);
  if (read->kind == Control::Kind::replica) {
    must(read->body <= size && std::ranges::equal(again, whole.first(read->body)));
    take_replica(*read, whole);
  } else {
    must(std::ranges::equal(again, whole));
    take_history(*read);
  }
  return 0;
}
