// Why machines do not talk to each other: the reasons, and a line for people that may have one.
//
// The numbers of the reasons cross the wire (docs/NETWORK.md): they stay as they are, later ones
// follow, and a number that is none of them is an error of whoever sent it. What is done about a
// reason is decided by it and never by the line's text. Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

enum class LinkRefusal : std::uint8_t {
  malformed = 1,  // it cannot be read
  version,        // another format
  cluster,        // another cluster's name
  workflow,       // another workflow
  lease,          // another lease
  wrong_machine,  // you reached another machine than you meant
  unknown,        // no machine of this cluster, or itself
  key,            // your key is another machine's, or nobody's
  over,           // your life is over; the number says up to which one
  ended,          // the link between these two lives has ended
  not_connected,  // no handshake was made on this connection
};
/// For people, in a few words.
inline std::string_view to_string(LinkRefusal reason) {
  switch (reason) {
    case LinkRefusal::malformed:
      return "malformed";
    case LinkRefusal::version:
      return "version";
    case LinkRefusal::cluster:
      return "cluster";
    case LinkRefusal::workflow:
      return "workflow";
    case LinkRefusal::lease:
      return "lease";
    case LinkRefusal::wrong_machine:
      return "wrong machine";
    case LinkRefusal::unknown:
      return "unknown machine";
    case LinkRefusal::key:
      return "wrong key";
    case LinkRefusal::over:
      return "life over";
    case LinkRefusal::ended:
      return "link ended";
    case LinkRefusal::not_connected:
      return "not connected";
  }
  return "";
}
/// Nothing: no reason has this number.
inline std::optional<LinkRefusal> link_refusal_of(std::uint8_t number) {
  const auto reason = static_cast<LinkRefusal>(number);
  if (to_string(reason).empty()) return std::nullopt;
  return reason;
}

/// A line for people about the links of a machine.
struct LinkNotice {
  // Implicit: whoever has only a line gives that.
  LinkNotice(std::string line) : text(std::move(line)) {}
  LinkNotice(std::string line, std::optional<LinkRefusal> why,
             std::optional<std::uint32_t> about = std::nullopt)
      : text(std::move(line)), refused(why), machine(about) {}

  std::string text;
  std::optional<LinkRefusal> refused;    // what it tells is a refusal, here or by the other side
  std::optional<std::uint32_t> machine;  // by or of which; nothing: of a stranger
};

}  // namespace sluice
