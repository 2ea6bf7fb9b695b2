#include "runtime/node/history_parcel.h"

#include <string>

namespace sluice {

namespace {

constexpr std::uint64_t any_number = ~std::uint64_t{0};

void put_mark(const HistoryMark& mark, wire::ByteWriter& out) {
  out.number(mark.count);
  out.number(mark.chain);
}

HistoryMark read_mark(wire::ByteReader& in) {
  HistoryMark mark;
  mark.count = static_cast<std::uint32_t>(in.number("a count of records", history_records_max));
  mark.chain = in.number("a chain", any_number);
  if (mark.count == 0 && mark.chain != 0) in.fail("a chain of no records");
  return mark;
}

void put_part(const HistoryPart& part, wire::ByteWriter& out) {
  put_mark(part.behind, out);
  out.number(part.turn);
  out.number(part.complete);
  out.number(part.records.size());
  for (const HistoryRecord& record : part.records) {
    out.number(record.size());
    out.bytes(record);
  }
}

HistoryPart read_part(wire::ByteReader& in) {
  HistoryPart part;
  part.behind = read_mark(in);
  part.turn = static_cast<std::uint32_t>(in.number("a turn's place", history_records_max));
  part.complete =
      static_cast<std::uint32_t>(in.number("a count of whole turns", history_records_max));
  const std::size_t records = in.count("records", history_records_max);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < records && in.ok(); ++i) {
    const auto record = in.bytes(in.count("a record", history_bytes_max), "a record");
    if ((bytes += record.size()) > history_bytes_max) in.fail("more records than may be kept");
    part.records.emplace_back(record.begin(), record.end());
  }
  const std::size_t all = part.behind.count + part.records.size();
  if (all > history_records_max || part.turn > all || part.complete > all)
    in.fail("records that do not go together");
  return part;
}

template <typename Value>
Result<Value> ended(wire::ByteReader& in, Value value) {
  if (in.ok() && in.left() != 0) in.fail("more than a history");
  if (!in.ok()) return Error{ErrorCode::corrupt, "what a session has said: " + in.error()};
  return value;
}

bool read_flag(wire::ByteReader& in, std::string_view what) {
  const std::uint8_t flag = in.u8(what);
  if (flag > 1) in.fail(std::string(what) + " is neither 0 nor 1");
  return flag == 1;
}

}  // namespace

wire::Bytes encode_told(const ToldParcel& parcel) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(parcel.call);
  out.u8(parcel.told.is_own ? 1 : 0);
  out.u8(parcel.told.is_too_large ? 1 : 0);
  put_part(parcel.told.part, out);
  return bytes;
}

Result<ToldParcel> decode_told(std::span<const std::byte> bytes) {
  wire::ByteReader in(bytes);
  ToldParcel parcel;
  parcel.call = in.number("a call", any_number);
  parcel.told.is_own = read_flag(in, "whose the conversation is");
  parcel.told.is_too_large = read_flag(in, "whether it is too large");
  parcel.told.part = read_part(in);
  return ended(in, std::move(parcel));
}

wire::Bytes encode_asked(const AskedParcel& parcel) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(parcel.call);
  put_mark(parcel.has, out);
  return bytes;
}

Result<AskedParcel> decode_asked(std::span<const std::byte> bytes) {
  wire::ByteReader in(bytes);
  AskedParcel parcel;
  parcel.call = in.number("a call", any_number);
  parcel.has = read_mark(in);
  return ended(in, parcel);
}

wire::Bytes encode_kept(const KeptHistory& kept) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.u8(kept.is_there ? 1 : 0);
  put_part(kept.part, out);
  return bytes;
}

Result<KeptHistory> decode_kept(std::span<const std::byte> bytes) {
  wire::ByteReader in(bytes);
  KeptHistory kept;
  kept.is_there = read_flag(in, "whether it is there");
  kept.part = read_part(in);
  return ended(in, std::move(kept));
}

}  // namespace sluice
