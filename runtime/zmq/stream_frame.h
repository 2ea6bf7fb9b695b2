// What two machines say to each other to forward a stream of bytes: frames as values, and as bytes.
//
// A frame is one piece of at most `stream_frame_bytes_max`. The first bytes of a hello, and an end,
// stay as they are in every later format. Errors: `corrupt`, with what is wrong.
// Source: docs/NETWORK.md, "Redis across machines".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "runtime/wire/bytes.h"

namespace sluice::links {

inline constexpr std::uint8_t stream_version = 1;
inline constexpr std::size_t stream_data_bytes_max = std::size_t{16} << 10U;
inline constexpr std::size_t stream_text_bytes_max = 200;
inline constexpr std::size_t stream_frame_bytes_max = stream_data_bytes_max + 1;
/// What one side may have sent that the other has not said it has passed on.
inline constexpr std::size_t stream_window_bytes = std::size_t{64} << 10U;
/// What each frame of data takes of that beside its bytes, so that small ones are bounded too.
inline constexpr std::size_t stream_frame_cost = 128;

/// Why a stream ends. The numbers cross the wire: they stay as they are, later ones follow.
enum class StreamEnding : std::uint8_t {
  malformed = 1,  // what came cannot be read, or comes where it may not
  version,        // another format
  unknown,        // no machine of this cluster
  key,            // the key is another machine's
  too_many,       // the machine has as many streams as it may have
  unreachable,    // the forwarder cannot connect to the server
  closed,         // the socket at the end that says so was closed
  silent,         // nothing was heard for too long
  not_open,       // no handshake was made on this connection
  leaving,        // the forwarder ends
};

/// Opens a stream. From who dials.
struct StreamHello {
  std::uint32_t machine = 0;
};
/// The server is connected.
struct StreamWelcome {};
struct StreamData {
  std::string bytes;
};
/// So many more bytes were passed on.
struct StreamGrant {
  std::uint32_t bytes = 0;
};
/// Nothing else was to be said for a while.
struct StreamBeat {};
struct StreamEnd {
  StreamEnding why = StreamEnding::closed;
  std::string text;  // for people; printable
};
/// A hello of a format that is not ours.
struct StreamOtherVersion {
  std::uint8_t version = 0;
};

using StreamFrame = std::variant<StreamHello, StreamWelcome, StreamData, StreamGrant, StreamBeat,
                                 StreamEnd, StreamOtherVersion>;

wire::Bytes write_stream_frame(const StreamFrame& frame);
Result<StreamFrame> read_stream_frame(std::span<const std::byte> bytes);

}  // namespace sluice::links
