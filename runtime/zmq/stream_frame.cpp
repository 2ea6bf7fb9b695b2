#include "runtime/zmq/stream_frame.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sluice::links {

namespace {

enum class Kind : std::uint8_t { hello = 1, welcome, data, grant, beat, end };

constexpr std::array<std::byte, 4> magic{std::byte{'s'}, std::byte{'l'}, std::byte{'f'},
                                         std::byte{'w'}};

Error wrong(const std::string& what) { return {ErrorCode::corrupt, what}; }

std::uint32_t read_u32(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  return value;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Writer {
 public:
  wire::Bytes take(const StreamFrame& frame) {
    std::visit([this](const auto& one) { write(one); }, frame);
    return std::move(bytes_);
  }

 private:
  void kind(Kind kind) { out_.u8(static_cast<std::uint8_t>(kind)); }
  void write(const StreamHello& hello) {
    kind(Kind::hello);
    out_.bytes(magic);
    out_.u8(stream_version);
    out_.u32(hello.machine);
  }
  void write(const StreamWelcome&) { kind(Kind::welcome); }
  void write(const StreamData& data) {
    kind(Kind::data);
    out_.bytes(std::as_bytes(std::span(data.bytes)));
  }
  void write(const StreamGrant& grant) {
    kind(Kind::grant);
    out_.u32(grant.bytes);
  }
  void write(const StreamBeat&) { kind(Kind::beat); }
  void write(const StreamEnd& end) {
    kind(Kind::end);
    out_.u8(static_cast<std::uint8_t>(end.why));
    out_.bytes(
        std::as_bytes(std::span(end.text).first(std::min(end.text.size(), stream_text_bytes_max))));
  }
  /// So that tests can speak as a later format does.
  void write(const StreamOtherVersion& other) {
    kind(Kind::hello);
    out_.bytes(magic);
    out_.u8(other.version);
  }

  wire::Bytes bytes_;
  wire::ByteWriter out_{bytes_};
};

Result<StreamFrame> read_hello(std::span<const std::byte> rest) {
  if (rest.size() <= magic.size() || !std::ranges::equal(rest.first(magic.size()), magic))
    return wrong("a hello that is none of a forwarded stream");
  const auto version = std::to_integer<std::uint8_t>(rest[magic.size()]);
  if (version != stream_version) return StreamFrame(StreamOtherVersion{version});
  rest = rest.subspan(magic.size() + 1);
  if (rest.size() != 4) return wrong("a hello of another size");
  return StreamFrame(StreamHello{read_u32(rest)});
}

Result<StreamFrame> read_end(std::span<const std::byte> rest) {
  if (rest.empty() || rest.size() > 1 + stream_text_bytes_max)
    return wrong("an end of another size");
  const auto why = std::to_integer<std::uint8_t>(rest[0]);
  if (why < static_cast<std::uint8_t>(StreamEnding::malformed) ||
      why > static_cast<std::uint8_t>(StreamEnding::leaving))
    return wrong("an end for reason " + std::to_string(why) + ", which is none");
  std::string text = text_of(rest.subspan(1));
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return StreamFrame(StreamEnd{static_cast<StreamEnding>(why), std::move(text)});
}

}  // namespace

wire::Bytes write_stream_frame(const StreamFrame& frame) { return Writer().take(frame); }

Result<StreamFrame> read_stream_frame(std::span<const std::byte> bytes) {
  if (bytes.empty()) return wrong("an empty frame");
  if (bytes.size() > stream_frame_bytes_max)
    return wrong("a frame of " + std::to_string(bytes.size()) + " bytes, at most " +
                 std::to_string(stream_frame_bytes_max) + " are allowed");
  const std::span<const std::byte> rest = bytes.subspan(1);
  const auto kind = std::to_integer<std::uint8_t>(bytes[0]);
  const bool is_bare = rest.empty();
  switch (static_cast<Kind>(kind)) {
    case Kind::hello:
      return read_hello(rest);
    case Kind::welcome:
      if (!is_bare) return wrong("a welcome with bytes behind it");
      return StreamFrame(StreamWelcome{});
    case Kind::data:
      if (is_bare) return wrong("data without bytes");
      return StreamFrame(StreamData{text_of(rest)});
    case Kind::grant:
      if (rest.size() != 4 || read_u32(rest) == 0) return wrong("a grant of nothing");
      return StreamFrame(StreamGrant{read_u32(rest)});
    case Kind::beat:
      if (!is_bare) return wrong("a beat with bytes behind it");
      return StreamFrame(StreamBeat{});
    case Kind::end:
      return read_end(rest);
  }
  return wrong("a frame of kind " + std::to_string(kind) + ", which is none");
}

}  // namespace sluice::links
