#include "runtime/node/control.h"

#include "runtime/wire/codec.h"

namespace sluice {

namespace {

using Kind = Control::Kind;

constexpr auto last_kind = Kind::session_denied;
constexpr std::uint64_t calls_max = std::uint64_t{1} << 20U;
constexpr std::uint64_t any_number = ~std::uint64_t{0};
constexpr std::uint64_t u32_max = 0xffff'ffffU;
constexpr std::uint64_t value_max = std::uint64_t{64} << 20U;

bool is_history(Kind kind) { return kind >= Kind::history_told && kind <= Kind::history_dropped; }
bool has_workflow(Kind kind) {
  return kind <= Kind::admitted || kind == Kind::give_up || kind == Kind::taken ||
         kind == Kind::welcome || kind == Kind::replica || is_history(kind);
}
bool has_number(Kind kind) {
  return has_workflow(kind) && kind != Kind::welcome && kind != Kind::replica;
}
bool has_calls(Kind kind) { return kind == Kind::admitted || kind == Kind::welcome; }
bool has_text(Kind kind) {
  return kind == Kind::session || kind == Kind::session_ended || kind == Kind::unheard ||
         kind == Kind::give_up || kind == Kind::lost || kind == Kind::forget ||
         kind >= Kind::session_wanted;
}
bool has_life(Kind kind) {
  return kind == Kind::session || kind == Kind::joined || kind == Kind::lost ||
         kind == Kind::admitted || kind == Kind::unheard || kind == Kind::session_granted ||
         kind == Kind::session_elsewhere;
}
bool has_process(Kind kind) { return kind == Kind::ask || kind == Kind::joined; }

}  // namespace

wire::Bytes encode_control(const Control& control) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  const Kind kind = control.kind;
  out.u8(static_cast<std::uint8_t>(kind));
  if (has_workflow(kind)) out.number(control.workflow);
  if (has_number(kind)) out.number(control.number);
  if (has_life(kind)) {
    out.number(control.life.machine);
    out.number(control.life.incarnation);
  }
  if (has_process(kind)) out.number(control.process);
  if (has_text(kind)) out.text(std::string_view(control.text).substr(0, wire::words_max));
  if (kind == Kind::give_up) out.number(control.node);
  if (kind == Kind::taken) out.number(control.edge);
  if (has_calls(kind)) {
    out.number(control.calls.size());
    for (const std::uint64_t call : control.calls) out.number(call);
  }
  if (is_history(kind)) {
    out.number(control.node);
    out.number(control.value.size());
    out.bytes(control.value);
  }
  return bytes;
}

Result<Control> decode_control(std::span<const std::byte> bytes) {
  wire::ByteReader in(bytes);
  Control control;
  const std::uint8_t kind = in.u8("the kind of a control parcel");
  if (kind > static_cast<std::uint8_t>(last_kind)) in.fail("no control parcel is of this kind");
  control.kind = static_cast<Kind>(kind);
  if (has_workflow(control.kind))
    control.workflow = static_cast<std::uint32_t>(in.number("a workflow", u32_max));
  if (has_number(control.kind)) control.number = in.number("a number", any_number);
  if (has_life(control.kind)) {
    control.life.machine = static_cast<std::uint32_t>(in.number("a machine", u32_max));
    control.life.incarnation = static_cast<std::uint32_t>(in.number("an incarnation", u32_max));
  }
  if (has_process(control.kind))
    control.process = static_cast<std::uint32_t>(in.number("an incarnation", u32_max));
  if (has_text(control.kind)) control.text = in.text("a text", wire::words_max);
  if (control.kind == Kind::give_up)
    control.node = static_cast<NodeId>(in.number("a node", 0xffff));
  if (control.kind == Kind::taken) control.edge = static_cast<EdgeId>(in.number("an edge", 0xffff));
  if (has_calls(control.kind)) {
    const std::size_t calls = in.count("calls", calls_max);
    for (std::size_t i = 0; i < calls && in.ok(); ++i)
      control.calls.push_back(in.number("a call", any_number));
  }
  if (is_history(control.kind)) {
    control.node = static_cast<NodeId>(in.number("a node", 0xffff));
    const auto value = in.bytes(in.count("a history", value_max), "a history");
    control.value.assign(value.begin(), value.end());
  }
  control.body = bytes.size() - in.left();
  if (in.ok() && in.left() != 0 && control.kind != Kind::replica)
    in.fail("more than a control parcel");
  if (!in.ok()) return Error{ErrorCode::corrupt, in.error()};
  return control;
}

}  // namespace sluice
