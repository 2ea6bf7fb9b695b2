#include "runtime/zmq/door.h"

#include <algorithm>

namespace sluice::links {

namespace {

using namespace std::chrono_literals;
constexpr unsigned lines_a_second = 5;

}  // namespace

std::string Door::words_of(std::uint32_t machine) const {
  const auto known = expected_.find(machine);
  return machine_words(machine, known == expected_.end() ? "" : known->second);
}

Verdict Door::judge(const Result<Head>& head, std::optional<std::uint32_t> proved) const {
  const auto no = [this](Reason reason, std::string text) {
    return Refusal{reason, self_, 0, std::move(text)};
  };
  if (!head) return no(Reason::malformed, head.error().message);
  if (std::holds_alternative<Refusal>(*head)) return Ignore{};
  if (const OtherVersion* other = std::get_if<OtherVersion>(&*head))
    return no(Reason::version, "it has format " + std::to_string(other->version) + ", " +
                                   std::to_string(format_version) + " is here");
  const Hello* hello = std::get_if<Hello>(&*head);
  if (hello == nullptr) return no(Reason::not_connected, "no handshake on this connection");
  const std::uint32_t machine = hello->from.machine;
  if (!expected_.contains(machine))
    return no(Reason::unknown,
              words_of(machine) +
                  (machine == self_.machine ? " is this one itself" : " is not in this cluster"));
  if (keyed_ && proved != machine)
    return no(Reason::key, "it says that it is " + words_of(machine) + ", its key is " +
                               (proved ? "that of " + words_of(*proved) : "nobody's"));
  return Enter{machine};
}

std::optional<std::string> NoticeLimit::pass(const std::string& line, Instant now) {
  if (now - second_ >= 1s) {
    second_ = now;
    passed_ = 0;
  }
  if (++passed_ > lines_a_second) {
    ++kept_back_;
    return std::nullopt;
  }
  std::string shown = line;
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (kept_back_ != 0) shown += " (" + std::to_string(kept_back_) + " lines before were left out)";
  kept_back_ = 0;
  return shown;
}

}  // namespace sluice::links
