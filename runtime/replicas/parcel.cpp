#include "runtime/replicas/parcel.h"

#include <algorithm>
#include <string_view>

#include "runtime/node/control.h"
#include "runtime/windows.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/payload_codec.h"

namespace sluice {

namespace {

enum class Word : std::uint8_t { begin, cancel, taken, yielded, ended };

constexpr std::uint64_t any_number = ~std::uint64_t{0};
constexpr std::uint64_t u32_max = 0xffff'ffffU;
constexpr std::uint64_t u16_max = 0xffff;
constexpr std::size_t values_max = std::size_t{1} << 20U;  // of one parcel
constexpr auto last_code = ErrorCode::cancelled;

std::string_view cut(const std::string& text) {
  return std::string_view(text).substr(0, wire::words_max);
}

struct Writer {
  wire::ByteWriter& out;
  wire::Lending& lending;

  void word(Word word, std::uint64_t activation) {
    out.u8(static_cast<std::uint8_t>(word));
    out.number(activation);
  }
  Result<void> values(const ReplicaValues& values) {
    if (values.size() > values_max)
      return Error{ErrorCode::exhausted, std::to_string(values.size()) +
                                             " values at once; the limit is " +
                                             std::to_string(values_max)};
    out.number(values.size());
    for (const auto& [field, value] : values) {
      out.number(field);
      if (Result<void> put = wire::put_payload(*value, out, lending); !put.ok()) return put;
      if (out.size() + lending.bytes > wire::Limits{}.bytes_max)
        return Error{ErrorCode::exhausted, "values of more than " +
                                               std::to_string(wire::Limits{}.bytes_max) +
                                               " bytes, which is the most of one message"};
    }
    return {};
  }
  void warnings(const std::vector<std::string>& warnings) {
    const std::size_t count = std::min(warnings.size(), wire::warnings_max);
    out.number(count);
    for (std::size_t i = 0; i < count; ++i) out.text(cut(warnings[i]));
  }

  Result<void> operator()(const ReplicaBegin& begin) {
    out.number(begin.node);
    out.number(begin.replica);
    out.number(begin.group);
    out.number(begin.call);
    out.text(cut(begin.session));
    return values(begin.inputs);
  }
  Result<void> operator()(const ReplicaCancel&) { return {}; }
  Result<void> operator()(const ReplicaTaken& taken) {
    out.number(taken.bytes);
    return {};
  }
  Result<void> operator()(const ReplicaYielded& yielded) {
    warnings(yielded.warnings);
    return values(yielded.values);
  }
  Result<void> operator()(const ReplicaEnded& ended) {
    warnings(ended.warnings);
    out.u8(ended.error ? 1 : 0);
    if (!ended.error) return {};
    out.u8(static_cast<std::uint8_t>(ended.error->code));
    out.text(cut(ended.error->message));
    return {};
  }
};

ReplicaValues read_values(wire::ByteReader& in, wire::Lending& lending) {
  // A field and the least of a value: its type and its parts.
  const std::size_t count = in.count("values", values_max, 3);
  ReplicaValues values;
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    const auto field = static_cast<std::uint16_t>(in.number("a field", u16_max));
    values.emplace_back(field, wire::read_payload(in, lending, wire::Limits{}.bytes_max));
  }
  return values;
}

std::vector<std::string> read_warnings(wire::ByteReader& in) {
  const std::size_t count = in.count("warnings", wire::warnings_max);
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < count && in.ok(); ++i)
    warnings.push_back(in.text("a warning", wire::words_max));
  return warnings;
}

ReplicaBegin read_begin(wire::ByteReader& in, wire::Lending& lending) {
  ReplicaBegin begin;
  begin.node = static_cast<NodeId>(in.number("a node", u16_max));
  begin.replica = static_cast<std::uint32_t>(in.number("a replica", u32_max));
  begin.group = static_cast<std::uint16_t>(in.number("a group", u16_max));
  begin.call = in.number("a call", any_number);
  begin.session = in.text("a session", wire::words_max);
  begin.inputs = read_values(in, lending);
  return begin;
}

ReplicaEnded read_ended(wire::ByteReader& in) {
  ReplicaEnded ended;
  ended.warnings = read_warnings(in);
  if (in.number("whether it failed", 1) == 0) return ended;
  Error error;
  error.code =
      static_cast<ErrorCode>(in.number("an error's code", static_cast<std::uint64_t>(last_code)));
  error.message = in.text("an error's text", wire::words_max);
  ended.error = std::move(error);
  return ended;
}

}  // namespace

std::size_t weight_of(std::size_t parcel_bytes, const wire::Lending& lending) {
  return parcel_bytes + lending.bytes + frame_overhead;
}

Result<wire::Bytes> encode_replica(const ReplicaParcel& parcel, wire::Lending& lending) {
  wire::Bytes bytes = encode_control({.kind = Control::Kind::replica, .workflow = parcel.workflow});
  wire::ByteWriter out(bytes);
  Writer writer{out, lending};
  writer.word(static_cast<Word>(parcel.what.index()), parcel.activation);
  if (Result<void> written = std::visit(writer, parcel.what); !written.ok()) {
    lending.take_back();
    return written.error();
  }
  return bytes;
}

Result<ReplicaParcel> decode_replica(std::span<const std::byte> bytes, wire::Lending& lending) {
  wire::ByteReader in(bytes);
  ReplicaParcel parcel;
  const std::uint64_t word =
      in.number("what is said of an activation", static_cast<std::uint64_t>(Word::ended));
  parcel.activation = in.number("an activation", any_number);
  if (parcel.activation == 0) in.fail("activation 0");
  switch (static_cast<Word>(word)) {
    case Word::begin:
      parcel.what = read_begin(in, lending);
      break;
    case Word::cancel:
      parcel.what = ReplicaCancel{};
      break;
    case Word::taken:
      parcel.what = ReplicaTaken{in.number("bytes", any_number)};
      break;
    case Word::yielded: {
      ReplicaYielded yielded;
      yielded.warnings = read_warnings(in);
      yielded.values = read_values(in, lending);
      parcel.what = std::move(yielded);
      break;
    }
    case Word::ended:
      parcel.what = read_ended(in);
      break;
  }
  if (in.ok() && in.left() != 0) in.fail("more than a parcel of a replica");
  if (!in.ok()) return Error{ErrorCode::corrupt, in.error()};
  return parcel;
}

}  // namespace sluice
