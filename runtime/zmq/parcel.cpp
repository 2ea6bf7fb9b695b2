#include "runtime/zmq/parcel.h"

#include <algorithm>
#include <optional>

namespace sluice::links {

namespace {

using wire::ByteReader;
using wire::Bytes;
using wire::ByteWriter;

// The first byte of a head. `hello`, `magic`, the version and all of `refusal` stay as they are in
// every later format, so that two formats can tell each other that they differ.
enum class Kind : std::uint8_t { hello = 1, welcome, ready, refusal, batch, part, heartbeat };
constexpr std::array<std::uint8_t, 4> magic{'S', 'L', 'C', 'E'};
constexpr std::uint64_t any_number = ~std::uint64_t{0};
constexpr std::uint64_t any_small = ~std::uint32_t{0};

void write(ByteWriter& writer, Origin origin) {
  writer.number(origin.machine);
  writer.number(origin.incarnation);
}

std::uint32_t read_small(ByteReader& reader, std::string_view what) {
  return static_cast<std::uint32_t>(reader.number(what, any_small));
}

Origin read_origin(ByteReader& reader) {
  Origin origin;
  origin.machine = read_small(reader, "a machine");
  origin.incarnation = read_small(reader, "an incarnation");
  if (origin.incarnation == 0) reader.fail("incarnation 0");
  return origin;
}

void write(ByteWriter& writer, const Hello& hello) {
  for (const std::uint8_t letter : magic) writer.u8(letter);
  writer.u8(format_version);
  write(writer, hello.from);
  writer.number(hello.to);
  writer.number(hello.lease_ms);
  writer.bytes(hello.workflow);
  writer.text(hello.cluster);
  writer.number(hello.knows);
  writer.number(hello.applied);
  writer.number(hello.over);
  writer.number(hello.nonce);
}

/// The rest of a hello, behind its version.
Hello read_hello(ByteReader& reader) {
  Hello hello;
  hello.from = read_origin(reader);
  hello.to = read_small(reader, "the machine that is called");
  hello.lease_ms = reader.number("the lease", lease_ms_max);
  const std::span<const std::byte> workflow = reader.bytes(hello.workflow.size(), "the workflow");
  std::ranges::copy(workflow, hello.workflow.begin());
  hello.cluster = reader.text("the cluster's name", cluster_bytes_max);
  hello.knows = read_small(reader, "the life that is known");
  hello.applied = reader.number("what was applied", any_number);
  if (hello.knows == 0 && hello.applied != 0) reader.fail("parcels of no life were applied");
  hello.over = read_small(reader, "the lives that are over");
  hello.nonce = reader.number("the nonce", any_number);
  return hello;
}

/// The magic and the version of a hello. Another version is an answer, not an error.
std::uint64_t read_version(ByteReader& reader) {
  for (const std::uint8_t letter : magic)
    if (reader.u8("the magic") != letter) reader.fail("this is no hello of Sluice");
  return reader.u8("the version");
}

bool printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

Refusal read_refusal(ByteReader& reader) {
  Refusal refusal;
  const std::optional<Reason> reason = link_refusal_of(reader.u8("the reason"));
  if (!reason) reader.fail("an unknown reason");
  refusal.reason = reason.value_or(Reason::malformed);
  refusal.from = read_origin(reader);
  refusal.over = read_small(reader, "the lives that are over");
  refusal.text = reader.text("the text", reason_bytes_max);
  if (!printable(refusal.text)) reader.fail("a text that is not printable");
  return refusal;
}

Channel read_channel(ByteReader& reader) {
  const std::uint8_t channel = reader.u8("the channel");
  if (channel > static_cast<std::uint8_t>(Channel::control)) reader.fail("an unknown channel");
  return static_cast<Channel>(channel);
}

Part read_part(ByteReader& reader) {
  Part part;
  part.number = reader.number("the parcel's number", any_number);
  part.applied = reader.number("what was applied", any_number);
  part.channel = read_channel(reader);
  part.total = reader.number("the message's length", message_bytes_max);
  part.at = reader.number("the part's place", message_bytes_max);
  return part;
}

Head read_kind(ByteReader& reader) {
  const std::uint8_t kind = reader.u8("the kind");
  switch (static_cast<Kind>(kind)) {
    case Kind::hello:
    case Kind::welcome: {
      const std::uint64_t version = read_version(reader);
      if (reader.ok() && version != format_version) return OtherVersion{version};
      Hello hello = read_hello(reader);
      if (static_cast<Kind>(kind) == Kind::hello) return hello;
      return Welcome{std::move(hello), reader.number("the echo", any_number)};
    }
    case Kind::ready: {
      Ready ready;
      ready.echo = reader.number("the echo", any_number);
      ready.knows = read_small(reader, "the life that is known");
      ready.applied = reader.number("what was applied", any_number);
      return ready;
    }
    case Kind::refusal:
      return read_refusal(reader);
    case Kind::batch: {
      Batch batch;
      batch.number = reader.number("the parcel's number", any_number);
      batch.applied = reader.number("what was applied", any_number);
      return batch;
    }
    case Kind::part:
      return read_part(reader);
    case Kind::heartbeat:
      return Heartbeat{reader.number("what was applied", any_number)};
  }
  reader.fail("an unknown kind of parcel");
  return Heartbeat{};
}

struct Writer {
  ByteWriter& out;
  void kind(Kind kind) { out.u8(static_cast<std::uint8_t>(kind)); }

  void operator()(const Hello& hello) {
    kind(Kind::hello);
    write(out, hello);
  }
  void operator()(const Welcome& welcome) {
    kind(Kind::welcome);
    write(out, welcome.hello);
    out.number(welcome.echo);
  }
  void operator()(const Ready& ready) {
    kind(Kind::ready);
    out.number(ready.echo);
    out.number(ready.knows);
    out.number(ready.applied);
  }
  void operator()(const Refusal& refusal) {
    kind(Kind::refusal);
    out.u8(static_cast<std::uint8_t>(refusal.reason));
    write(out, refusal.from);
    out.number(refusal.over);
    std::string text = refusal.text.substr(0, reason_bytes_max);
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    out.text(text);
  }
  void operator()(const Batch& batch) {
    kind(Kind::batch);
    out.number(batch.number);
    out.number(batch.applied);
  }
  void operator()(const Part& part) {
    kind(Kind::part);
    out.number(part.number);
    out.number(part.applied);
    out.u8(static_cast<std::uint8_t>(part.channel));
    out.number(part.total);
    out.number(part.at);
  }
  void operator()(const Heartbeat& heartbeat) {
    kind(Kind::heartbeat);
    out.number(heartbeat.applied);
  }
  void operator()(const OtherVersion& other) {
    kind(Kind::hello);
    for (const std::uint8_t letter : magic) out.u8(letter);
    out.u8(static_cast<std::uint8_t>(other.version));
  }
};

Error corrupt(std::string text) { return {ErrorCode::corrupt, std::move(text)}; }

}  // namespace

Bytes write_head(const Head& head) {
  Bytes bytes;
  bytes.reserve(32);
  ByteWriter writer(bytes);
  std::visit(Writer{writer}, head);
  return bytes;
}

Result<Head> read_head(std::span<const std::byte> bytes) {
  if (bytes.size() > head_bytes_max)
    return corrupt("a head of " + std::to_string(bytes.size()) + " bytes, at most " +
                   std::to_string(head_bytes_max) + " are allowed");
  ByteReader reader(bytes);
  Head head = read_kind(reader);
  if (std::holds_alternative<OtherVersion>(head)) return head;
  if (reader.ok() && reader.left() != 0) reader.fail("something follows the head");
  if (!reader.ok()) return corrupt(reader.error());
  return head;
}

void write_message(Bytes& body, Channel channel, std::span<const std::byte> message) {
  ByteWriter writer(body);
  writer.u8(static_cast<std::uint8_t>(channel));
  writer.number(message.size());
  writer.bytes(message);
}

Result<void> read_batch(std::span<const std::byte> body, std::vector<MessageView>& out) {
  if (body.size() > body_bytes_max)
    return corrupt("a body of " + std::to_string(body.size()) + " bytes, at most " +
                   std::to_string(body_bytes_max) + " are allowed");
  ByteReader reader(body);
  const std::size_t before = out.size();
  do {
    const Channel channel = read_channel(reader);
    const std::size_t length = reader.count("a message's length", body_bytes_max);
    out.push_back({channel, reader.bytes(length, "a message")});
  } while (reader.left() != 0);
  if (reader.ok()) return {};
  out.resize(before);
  return corrupt(reader.error());
}

Result<void> check_part(const Part& part, std::size_t body_bytes) {
  if (body_bytes > body_bytes_max)
    return corrupt("a body of " + std::to_string(body_bytes) + " bytes, at most " +
                   std::to_string(body_bytes_max) + " are allowed");
  if (body_bytes == 0) return corrupt("a part without bytes");
  if (part.total > message_bytes_max || part.at > part.total || body_bytes > part.total - part.at)
    return corrupt("a part of " + std::to_string(body_bytes) + " bytes at " +
                   std::to_string(part.at) + " of a message of " + std::to_string(part.total));
  return {};
}

}  // namespace sluice::links
