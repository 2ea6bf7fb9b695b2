#include "runtime/hosts/host_protocol.h"

#include <utility>

#include "runtime/hosts/pool_codec.h"
#include "runtime/wire/payload_codec.h"

namespace sluice::hosts {

namespace {

using wire::ByteReader;
using wire::Bytes;
using wire::ByteWriter;

constexpr std::uint32_t magic = 0x48534c53;  // "SLSH"
constexpr std::size_t name_max = 64 << 10;   // sessions are named by callers
constexpr std::size_t words_max = 64 << 10;  // of an error or a warning
constexpr std::size_t path_max = 4096;
constexpr std::size_t fields_max = 1024;
constexpr std::size_t frames_max = 1 << 20;
constexpr std::size_t options_max = 1024;
constexpr std::size_t option_max = 1 << 20;
constexpr std::uint64_t any_u32 = ~std::uint32_t{0};
constexpr std::uint64_t any_u64 = ~std::uint64_t{0};

std::string_view cut(std::string_view text, std::size_t most) { return text.substr(0, most); }

std::uint32_t read_u32(ByteReader& reader, std::string_view what) {
  return static_cast<std::uint32_t>(reader.number(what, any_u32));
}
std::string read_name(ByteReader& reader, std::string_view what) {
  return reader.text(what, name_max);
}
bool read_bool(ByteReader& reader, std::string_view what) { return reader.number(what, 1) != 0; }

void put(const std::optional<Error>& error, ByteWriter& writer) {
  writer.u8(error ? 1 : 0);
  if (!error) return;
  writer.u8(static_cast<std::uint8_t>(error->code));
  writer.text(cut(error->message, words_max));
}
std::optional<Error> read_error(ByteReader& reader) {
  if (!read_bool(reader, "whether there is an error")) return {};
  Error error;
  error.code = static_cast<ErrorCode>(
      reader.number("an error's code", static_cast<std::uint64_t>(ErrorCode::cancelled)));
  error.message = reader.text("an error's message", words_max);
  return error;
}

// Requests, in the order of the variant: the first byte says which.

Result<void> put(const MakeParam& make, ByteWriter& writer) {
  writer.text(make.spec.name.text);
  writer.text(make.spec.kind.text);
  writer.signed_number(make.spec.page_tokens);
  writer.signed_number(make.spec.pages);
  writer.u8(make.spec.kv_dtype == Dtype::bf16 ? 1 : 0);
  writer.text(make.model_directory);
  writer.u8(make.spec.ssd ? 1 : 0);
  if (make.spec.ssd) writer.text(make.spec.ssd->text);
  writer.signed_number(make.spec.ssd_bytes);
  writer.u8(make.spec.device == EngineDevice::cuda ? 1 : 0);
  return {};
}
void read(ByteReader& reader, MakeParam& make) {
  make.spec.name.text = read_name(reader, "a parameter's name");
  make.spec.kind.text = read_name(reader, "a parameter's kind");
  make.spec.page_tokens = reader.signed_number("tokens of a page");
  make.spec.pages = reader.signed_number("pages");
  if (read_bool(reader, "whether pages are in bf16")) make.spec.kv_dtype = Dtype::bf16;
  make.model_directory = reader.text("a model's directory", path_max);
  if (read_bool(reader, "whether pages have a folder"))
    make.spec.ssd.emplace().text = reader.text("a folder", path_max);
  make.spec.ssd_bytes = reader.signed_number("bytes of a folder");
  if (read_bool(reader, "whether it is on a GPU")) make.spec.device = EngineDevice::cuda;
}

Result<void> put(const MakeRole& make, ByteWriter& writer) {
  const RoleSpec& role = make.role;
  writer.text(role.name.text);
  writer.text(role.plugin.text);
  writer.u8(role.model ? 1 : 0);
  if (role.model) writer.text(role.model->text);
  writer.number(role.global_params.size());
  for (const Name& param : role.global_params) writer.text(param.text);
  writer.number(role.replicas);
  writer.u8(static_cast<std::uint8_t>(role.balance));
  writer.number(role.options.size());
  for (const OptionSpec& option : role.options) {
    writer.text(option.key.text);
    writer.text(option.value.text);
  }
  writer.number(make.replica);
  writer.text(make.model_directory);
  writer.number(make.params.size());
  for (const std::uint32_t param : make.params) writer.number(param);
  writer.number(make.threads);
  return {};
}
void read(ByteReader& reader, MakeRole& make) {
  RoleSpec& role = make.role;
  role.name.text = read_name(reader, "a role's name");
  role.plugin.text = read_name(reader, "a role's plugin");
  if (read_bool(reader, "whether there is a model"))
    role.model = Name{reader.text("a role's model", path_max), {}};
  role.global_params.resize(reader.count("a role's parameters", fields_max));
  for (Name& param : role.global_params) param.text = read_name(reader, "a parameter's name");
  role.replicas = read_u32(reader, "replicas");
  role.balance = static_cast<Balance>(
      reader.number("a balance", static_cast<std::uint64_t>(Balance::broadcast)));
  role.options.resize(reader.count("a role's options", options_max, 2));
  for (OptionSpec& option : role.options) {
    option.key.text = read_name(reader, "an option's name");
    option.value.text = reader.text("an option's value", option_max);
  }
  make.replica = read_u32(reader, "a replica");
  make.model_directory = reader.text("a model's directory", path_max);
  make.params.resize(reader.count("channels of parameters", fields_max));
  for (std::uint32_t& param : make.params) param = read_u32(reader, "a parameter's channel");
  make.threads = read_u32(reader, "threads");
}

Result<void> put(const HostedWork& work, ByteWriter& writer) {
  writer.number(work.id);
  writer.u8(work.admit ? 1 : 0);
  for (const std::string* name : {&work.node, &work.interface, &work.session}) {
    if (name->size() > name_max)
      return Error{ErrorCode::exhausted, "a name of " + std::to_string(name->size()) +
                                             " bytes; the limit of a role host is " +
                                             std::to_string(name_max)};
    writer.text(*name);
  }
  writer.number(work.call);
  writer.number(work.group);
  writer.number(work.fields.size());
  for (const HostedField& field : work.fields) {
    writer.text(field.name);
    writer.number(field.values.size());
    for (const PayloadRef& value : field.values)
      if (Result<void> done = wire::put_payload(*value, writer); !done.ok()) return done;
  }
  return {};
}
void read(ByteReader& reader, HostedWork& work) {
  work.id = reader.number("an activation", any_u64);
  work.admit = read_bool(reader, "whether to admit it");
  work.node = read_name(reader, "a node's name");
  work.interface = read_name(reader, "an interface's name");
  work.session = read_name(reader, "a session's name");
  work.call = reader.number("a call", any_u64);
  work.group = read_u32(reader, "a group");
  work.fields.resize(reader.count("fields", fields_max, 2));
  for (HostedField& field : work.fields) {
    field.name = read_name(reader, "a field's name");
    const std::size_t values = reader.count("frames of a field", frames_max, 2);
    for (std::size_t i = 0; i < values && reader.ok(); ++i)
      field.values.push_back(wire::read_payload(reader));
  }
}

Result<void> put(const StepRequest& step, ByteWriter& writer) {
  writer.number(step.cancelled.size());
  for (const std::uint64_t id : step.cancelled) writer.number(id);
  return {};
}
void read(ByteReader& reader, StepRequest& step) {
  step.cancelled.resize(reader.count("cancelled activations", frames_max));
  for (std::uint64_t& id : step.cancelled) id = reader.number("an activation", any_u64);
}

Result<void> put(const EndSession& end, ByteWriter& writer) {
  if (end.session.size() > name_max)
    return Error{ErrorCode::exhausted, "the session's name is too long"};
  writer.text(end.session);
  return {};
}
void read(ByteReader& reader, EndSession& end) {
  end.session = read_name(reader, "a session's name");
}

Result<void> put(const LookAtPool& look, ByteWriter& writer) {
  writer.number(look.patience_ms);
  return {};
}
void read(ByteReader& reader, LookAtPool& look) {
  look.patience_ms = read_u32(reader, "how long to wait");
}

// Replies.

Result<void> put(const Made& made, ByteWriter& writer) {
  writer.u8(made.stepped ? 1 : 0);
  put(made.error, writer);
  return {};
}
void read(ByteReader& reader, Made& made) {
  made.stepped = read_bool(reader, "whether the role is stepped");
  made.error = read_error(reader);
}

Result<void> put(const Yielded& yielded, ByteWriter& writer) {
  writer.number(yielded.id);
  writer.number(yielded.values.size());
  for (const HostedValue& value : yielded.values) {
    writer.text(value.field);
    writer.u8(value.value ? 1 : 0);
    if (value.value) {
      if (Result<void> done = wire::put_payload(*value.value, writer); !done.ok()) return done;
      continue;
    }
    writer.number(value.input_field);
    writer.number(value.input_index);
  }
  return {};
}
void read(ByteReader& reader, Yielded& yielded) {
  yielded.id = reader.number("an activation", any_u64);
  yielded.values.resize(reader.count("fields of a frame", fields_max, 3));
  for (HostedValue& value : yielded.values) {
    value.field = read_name(reader, "a field's name");
    if (read_bool(reader, "whether there is a value")) {
      value.value = wire::read_payload(reader);
      continue;
    }
    value.input_field = read_u32(reader, "an input's field");
    value.input_index = read_u32(reader, "an input's number");
  }
}

Result<void> put(const Warned& warned, ByteWriter& writer) {
  writer.number(warned.id);
  writer.text(cut(warned.text, words_max));
  return {};
}
void read(ByteReader& reader, Warned& warned) {
  warned.id = reader.number("an activation", any_u64);
  warned.text = reader.text("a warning", words_max);
}

Result<void> put(const Ended& ended, ByteWriter& writer) {
  writer.number(ended.id);
  put(ended.error, writer);
  writer.text(cut(ended.undeclared, words_max));
  return {};
}
void read(ByteReader& reader, Ended& ended) {
  ended.id = reader.number("an activation", any_u64);
  ended.error = read_error(reader);
  ended.undeclared = reader.text("an undeclared field", words_max);
}

Result<void> put(const Stepped& stepped, ByteWriter& writer) {
  writer.u8(stepped.busy ? 1 : 0);
  return {};
}
void read(ByteReader& reader, Stepped& stepped) {
  stepped.busy = read_bool(reader, "whether the role is busy");
}

Result<void> put(const PoolSeen& seen, ByteWriter& writer) {
  writer.u8(seen.report ? 1 : 0);
  if (seen.report) put_pool(*seen.report, writer);
  return {};
}
void read(ByteReader& reader, PoolSeen& seen) {
  if (read_bool(reader, "whether there is a pool")) seen.report = read_pool(reader);
}

// Control messages: fixed and short.

Result<void> put(const Hello& hello, ByteWriter& writer) {
  writer.u32(magic);
  writer.number(hello.version);
  return {};
}
void read(ByteReader& reader, Hello& hello) {
  std::uint32_t found = 0;
  for (unsigned i = 0; i < 4; ++i) found |= std::uint32_t{reader.u8("the first word")} << (8 * i);
  if (found != magic) reader.fail("the other side is no role host");
  hello.version = read_u32(reader, "a version");
  if (reader.ok() && hello.version != protocol_version)
    reader.fail("version " + std::to_string(hello.version) + ", this is " +
                std::to_string(protocol_version));
}
Result<void> put(const OpenChannel& open, ByteWriter& writer) {
  writer.number(open.channel);
  return {};
}
void read(ByteReader& reader, OpenChannel& open) { open.channel = read_u32(reader, "a channel"); }
Result<void> put(const Ping& ping, ByteWriter& writer) {
  writer.number(ping.number);
  return {};
}
void read(ByteReader& reader, Ping& ping) { ping.number = reader.number("a ping", any_u64); }
Result<void> put(const Cancel& cancel, ByteWriter& writer) {
  writer.number(cancel.channel);
  writer.number(cancel.activation);
  return {};
}
void read(ByteReader& reader, Cancel& cancel) {
  cancel.channel = read_u32(reader, "a channel");
  cancel.activation = reader.number("an activation", any_u64);
}

Result<void> put(const ShareParts&, ByteWriter&) { return {}; }
void read(ByteReader&, ShareParts&) {}

template <typename Variant>
Result<Bytes> encode_any(const Variant& message) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.u8(static_cast<std::uint8_t>(message.index()));
  Result<void> done = std::visit([&](const auto& one) { return put(one, writer); }, message);
  if (!done.ok()) return done.error();
  if (bytes.size() > message_max)
    return Error{ErrorCode::exhausted, "a message of " + std::to_string(bytes.size()) +
                                           " bytes to or from a role host; the limit is " +
                                           std::to_string(message_max)};
  return bytes;
}

template <typename Variant, std::size_t Index = 0>
void read_kind(std::uint64_t kind, ByteReader& reader, Variant& to) {
  if constexpr (Index < std::variant_size_v<Variant>) {
    if (kind != Index) return read_kind<Variant, Index + 1>(kind, reader, to);
    read(reader, to.template emplace<Index>());
  }
}

template <typename Variant>
Result<Variant> decode_any(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Variant message;
  const std::uint64_t kind = reader.number("a message's kind", std::variant_size_v<Variant> - 1);
  if (reader.ok()) read_kind(kind, reader, message);
  if (reader.left() != 0) reader.fail("bytes behind the message's end");
  if (!reader.ok()) return Error{ErrorCode::corrupt, reader.error()};
  return message;
}

}  // namespace

Bytes encode(const Control& control) { return encode_any(control).value(); }
Result<Control> decode_control(std::span<const std::byte> bytes) {
  return decode_any<Control>(bytes);
}
Result<Bytes> encode(const Request& request) { return encode_any(request); }
Result<Request> decode_request(std::span<const std::byte> bytes) {
  return decode_any<Request>(bytes);
}
Result<Bytes> encode(const Reply& reply) { return encode_any(reply); }
Result<Reply> decode_reply(std::span<const std::byte> bytes) { return decode_any<Reply>(bytes); }

}  // namespace sluice::hosts
