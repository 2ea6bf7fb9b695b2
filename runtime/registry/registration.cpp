#include "runtime/registry/registration.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/registry/scripts.h"

namespace sluice {

namespace {

constexpr std::size_t machines_most = 256;
constexpr std::chrono::milliseconds pause_least{20};

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string shown = text.substr(0, 200);
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }, '?');
  return shown;
}

Registration::Registration(RegistrationSettings settings)
    : settings_(std::move(settings)), wanted_(settings_.incarnation) {}

std::vector<std::string> Registration::command(const std::string& script,
                                               const std::vector<std::string>& more) const {
  const std::string prefix = "sluice:" + settings_.cluster + ":";
  std::vector<std::string> words{"EVAL",
                                 script,
                                 "3",
                                 prefix + "lives",
                                 prefix + "leases",
                                 prefix + "epoch",
                                 settings_.machine,
                                 settings_.token};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::optional<RegistryQuestion> Registration::ask(Instant now) {
  if (open_ || now < due_ || !fenced_.empty()) return {};
  open_ = true;
  asked_at_ = now;
  asked_incarnation_ = wanted_;
  due_ = now + patience();
  const std::vector<std::string> facts{std::to_string(wanted_), settings_.workflow,
                                       std::to_string(settings_.lease.count()),
                                       registered_ ? epoch_ : settings_.token,
                                       given_ != 0 ? "again" : "new",
                                       std::to_string(settings_.young.count())};
  return RegistryQuestion{++asked_,
                          command(registered_ ? registry::renew : registry::enter, facts)};
}

std::vector<std::string> Registration::farewell() const { return command(registry::leave, {}); }

void Registration::answered(std::uint64_t number, const std::vector<std::string>& words,
                            Instant now) {
  if (!open_ || number != asked_) return;
  open_ = false;
  due_ = now + settings_.lease / 4;
  const std::string what = words.empty() ? "" : words[0];
  if (what == "ok") return take_entry(words, now);
  if (what == "replaced" && registered_ && words.size() == 1) {
    registered_ = false;
    why_ = "it was emptied, or another has taken its place";
    due_ = now;
    return;
  }
  refuse(words);
}

void Registration::take_entry(const std::vector<std::string>& words, Instant now) {
  const auto given = words.size() >= 3 ? number(words[2]) : std::nullopt;
  const bool sound = given && *given >= asked_incarnation_ && !words[1].empty() &&
                     words.size() <= 3 + machines_most &&
                     std::find(words.begin() + 3, words.end(), settings_.machine) != words.end();
  if (!sound) {
    why_ = "its answer makes no sense";
    due_ = now + patience();
    return;
  }
  // A life that is under way keeps its number; a higher one is of a process that came between.
  if (given_ != 0 && *given > wanted_) {
    fenced_ = "another process was machine '" + settings_.machine + "' meanwhile, in life " +
              std::to_string(*given - 1);
    return;
  }
  registered_ = true;
  epoch_ = words[1];
  given_ = wanted_ = std::max(wanted_, *given);
  holds_until_ = asked_at_ + settings_.lease;
  present_.assign(words.begin() + 3, words.end());
}

void Registration::refuse(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "fenced" && registered_) {
    fenced_ = "another process has become machine '" + settings_.machine + "', in life " +
              printable(words[1]);
  } else if (words.size() == 3 && words[0] == "held" && !registered_) {
    why_ = "another process is machine '" + settings_.machine + "', in life " +
           printable(words[1]) + "; its lease lasts for " + printable(words[2]) + " ms more";
    if (given_ != 0) fenced_ = why_;
  } else if (words.size() == 2 && words[0] == "young" && given_ == 0) {
    why_ = "it is new or was emptied, and lets in who was there before it lets newcomers in, in " +
           printable(words[1]) + " ms";
  } else if (words.size() == 3 && words[0] == "differs" && !registered_) {
    why_ = "machine '" + printable(words[1]) +
           "' has other workflows, plugins, overrides or places: digest " +
           printable(words[2]).substr(0, 8) + "..., machine '" + settings_.machine + "' has " +
           settings_.workflow.substr(0, 8) + "...; there both are cluster '" + settings_.cluster +
           "', by the name of the cluster file: give another cluster's file another name";
  } else {
    why_ = "its answer makes no sense";
  }
}

void Registration::broke(const std::string& why, Instant now) {
  open_ = false;
  why_ = why;
  due_ = now + std::max(pause_least, settings_.lease / 16);
}

void Registration::raise(std::uint32_t incarnation) {
  if (incarnation <= wanted_) return;
  wanted_ = incarnation;
  if (given_ != 0) given_ = incarnation;
}

RegistryStanding Registration::standing(Instant now) const {
  using Kind = RegistryStanding::Kind;
  if (!fenced_.empty()) return {Kind::fenced, fenced_};
  if (given_ == 0) return {Kind::joining, why_};
  if (now < holds_until_) return {Kind::current, {}, present_};
  return {Kind::lapsed, why_};
}

}  // namespace sluice
