#include "runtime/zmq/stream_desk.h"

#include "runtime/zmq/peer.h"

namespace sluice::links {

std::string StreamDesk::words_of(std::uint32_t machine) const {
  const auto known = names_.find(machine);
  return machine_words(machine, known == names_.end() ? "" : known->second);
}

StreamDesk::Verdict StreamDesk::judge(const Result<StreamFrame>& frame,
                                      std::optional<std::uint32_t> proved) {
  if (!frame.ok()) return StreamEnd{StreamEnding::malformed, frame.error().message};
  if (std::holds_alternative<StreamEnd>(*frame)) return Ignore{};
  if (const auto* const other = std::get_if<StreamOtherVersion>(&*frame))
    return StreamEnd{StreamEnding::version, "format " + std::to_string(other->version) +
                                                " is asked for, " + std::to_string(stream_version) +
                                                " is here"};
  const auto* const hello = std::get_if<StreamHello>(&*frame);
  if (hello == nullptr) return StreamEnd{StreamEnding::not_open, "no handshake on this connection"};
  const std::uint32_t machine = hello->machine;
  if (!names_.contains(machine))
    return StreamEnd{StreamEnding::unknown, words_of(machine) + " is not one of the others here"};
  if (keyed_ && proved != machine)
    return StreamEnd{StreamEnding::key, "its key is " + (proved ? "that of " + words_of(*proved)
                                                                : std::string("nobody's"))};
  if (open_[machine] >= streams_of_machine_max)
    return StreamEnd{StreamEnding::too_many, "it has " + std::to_string(streams_of_machine_max) +
                                                 " connections, as many as are forwarded"};
  ++open_[machine];
  return Enter{machine};
}

void StreamDesk::left(std::uint32_t machine) {
  if (const auto found = open_.find(machine); found != open_.end() && found->second != 0)
    --found->second;
}

}  // namespace sluice::links
