#include "runtime/redis/registry_keeper.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/bell.h"
#include "base/failpoint.h"
#include "runtime/redis/private_server.h"
#include "runtime/registry/scripts.h"

namespace sluice {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Instant = Registration::Instant;
using Kind = RegistryStanding::Kind;

constexpr milliseconds farewell_patience{200};  // of a server of this machine

Instant now() { return steady_clock::now().time_since_epoch(); }

/// What a server's user lacks is in the rule of this cluster, whose name is in the keys.
std::string rule_to_write(const RegistryOptions& options) {
  std::string rule = "ACL SETUSER " + (options.login ? options.login->user : "default");
  for (const std::string& word : registry_acl(options.entry.cluster))
    if (word.starts_with('+') || word.starts_with('~')) rule += " " + word;
  return rule;
}

/// A script's answer: a list of texts.
Result<std::vector<std::string>> words_of(const RedisValue& value, const RegistryOptions& options) {
  if (value.kind == RedisValue::Kind::error && value.text.starts_with("NOPERM"))
    return Error{ErrorCode::unavailable, "it says: " + printable(value.text) +
                                             "; what this cluster needs there is `" +
                                             rule_to_write(options) + "`"};
  if (value.kind == RedisValue::Kind::error)
    return Error{ErrorCode::unavailable, "it says: " + printable(value.text)};
  std::vector<std::string> words;
  for (const RedisValue& item : value.list) {
    if (item.kind != RedisValue::Kind::text) return std::vector<std::string>();
    words.push_back(item.text);
  }
  return words;
}

class Keeper final : public RegistryKeeper {
 public:
  explicit Keeper(RegistryOptions options)
      : options_(std::move(options)),
        // Another machine's server is some turns of a network away.
        farewell_patience_(options_.address.open
                               ? std::max(farewell_patience, options_.entry.lease / 4)
                               : farewell_patience),
        entry_(options_.entry),
        thread_([this] { keep(); }) {}
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() override {
    stop_.ring();
    thread_.join();
  }

  Result<std::uint32_t> wait_for_entry(milliseconds patience) override;
  void raise(std::uint32_t incarnation) override {
    const std::lock_guard lock(mutex_);
    entry_.raise(incarnation);
  }
  RegistryStanding standing() const override {
    const std::lock_guard lock(mutex_);
    return entry_.standing(now());
  }
  Result<void> may_begin() const override;
  const RegistryOptions& options() const override { return options_; }

 private:
  void keep();
  void ask(const RegistryQuestion& question);
  Result<void> connect(std::chrono::steady_clock::time_point until);
  void broke(const std::string& why);
  void tell();
  /// True when the keeper is to end.
  bool wait(Instant until) const;

  const RegistryOptions options_;
  const milliseconds farewell_patience_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Registration entry_;
  // The keeper's thread alone.
  std::optional<RedisLink> link_;
  Kind told_ = Kind::joining;
  const Bell stop_;
  std::thread thread_;
};

Result<std::uint32_t> Keeper::wait_for_entry(milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] {
    const Kind kind = entry_.standing(now()).kind;
    return kind == Kind::current || kind == Kind::fenced;
  });
  const RegistryStanding standing = entry_.standing(now());
  if (standing.kind == Kind::current) return entry_.incarnation();
  if (standing.kind == Kind::fenced) return Error{ErrorCode::stale, standing.why};
  return Error{ErrorCode::deadline, "the registry at " + options_.shown + " has not let machine '" +
                                        options_.entry.machine + "' in: " + standing.why};
}

Result<void> Keeper::may_begin() const {
  const RegistryStanding standing = this->standing();
  if (standing.kind == Kind::current) return {};
  if (standing.kind == Kind::fenced) return Error{ErrorCode::stale, standing.why};
  return Error{ErrorCode::unavailable, "no call can begin while the registry at " + options_.shown +
                                           " does not confirm this machine: " + standing.why};
}

bool Keeper::wait(Instant until) const {
  const Instant left = std::clamp<Instant>(until - now(), Instant{}, std::chrono::seconds(60));
  pollfd event{stop_.descriptor(), POLLIN, 0};
  return ::poll(&event, 1, static_cast<int>(std::chrono::ceil<milliseconds>(left).count())) > 0;
}

void Keeper::keep() {
  // The end came amid a question, perhaps: what the server did then is not known.
  bool is_cut_off = false;
  for (;;) {
    std::optional<RegistryQuestion> question;
    Instant due{};
    {
      const std::lock_guard lock(mutex_);
      question = entry_.ask(now());
      due = entry_.due();
      if (entry_.standing(now()).kind == Kind::fenced) due = now() + std::chrono::seconds(60);
    }
    if (question) ask(*question);
    tell();
    if (question) is_cut_off = !link_;
    if (wait(question ? now() : std::max(due, now() + milliseconds(1)))) break;
  }
  stop_.hear();
  if (is_cut_off) (void)connect(steady_clock::now() + farewell_patience_);
  if (!link_) return;
  failpoint("registry_leave");
  (void)link_->ask(entry_.farewell(), steady_clock::now() + farewell_patience_);
}

Result<void> Keeper::connect(steady_clock::time_point until) {
  Result<RedisLink> made =
      RedisLink::connect(options_.address, until, stop_.descriptor(), options_.login);
  if (!made.ok()) return made.error();
  link_.emplace(std::move(made).value());
  return {};
}

void Keeper::ask(const RegistryQuestion& question) {
  const auto until = steady_clock::now() + entry_.patience();
  if (!link_)
    if (const Result<void> made = connect(until); !made.ok()) return broke(made.error().message);
  failpoint(question.words[1] == registry::enter ? "registry_enter" : "registry_renew");
  const Result<RedisValue> answer = link_->ask(question.words, until);
  failpoint("registry_answered");
  if (!answer.ok()) return broke(answer.error().message);
  const auto words = words_of(*answer, options_);
  if (!words.ok()) return broke(words.error().message);
  const std::lock_guard lock(mutex_);
  entry_.answered(question.number, *words, now());
  changed_.notify_all();
}

void Keeper::broke(const std::string& why) {
  link_.reset();
  const std::lock_guard lock(mutex_);
  entry_.broke(why, now());
}

/// People hear of what changed.
void Keeper::tell() {
  const RegistryStanding standing = this->standing();
  if (standing.kind == std::exchange(told_, standing.kind)) return;
  changed_.notify_all();
  if (standing.kind == Kind::fenced && options_.fenced) options_.fenced(standing.why);
  if (!options_.notice) return;
  if (standing.kind == Kind::lapsed)
    options_.notice("the registry at " + options_.shown + " is lost: " + standing.why);
  else if (standing.kind == Kind::current)
    options_.notice("the registry at " + options_.shown + " confirms this machine");
}

}  // namespace

std::unique_ptr<RegistryKeeper> RegistryKeeper::create(RegistryOptions options) {
  return std::make_unique<Keeper>(std::move(options));
}

std::string new_registry_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    std::uint32_t bits = random();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4U) token += "0123456789abcdef"[bits & 15U];
  }
  return token;
}

}  // namespace sluice
