#include "runtime/redis/index_keeper.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "base/failpoint.h"
#include "runtime/redis/page_index.h"
#include "runtime/redis/private_server.h"
#include "runtime/registry/registration.h"

namespace sluice {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Instant = IndexClient::Instant;
using Deadline = RedisLink::Deadline;

constexpr milliseconds connect_patience{250}, farewell_patience{500};
constexpr Instant longest_wait = std::chrono::seconds(60);

Instant now() { return steady_clock::now().time_since_epoch(); }

bool is_error(const RedisValue& value, std::string_view with) {
  return value.kind == RedisValue::Kind::error && value.text.find(with) != std::string::npos;
}

/// The command, or one within a function: in the words of 7.0, and of later versions.
bool is_forbidden(const RedisValue& value) {
  return is_error(value, "NOPERM") || is_error(value, "can't run this command") ||
         is_error(value, "ACL failure in script");
}

Error forbidden(const std::string& what) {
  std::string rule;
  for (const std::string& word : page_index_acl()) rule += " " + word;
  return {ErrorCode::invalid_argument,
          "'" + printable(what) + "': `ACL SETUSER NAME" + rule + "`, NAME being its user"};
}

class Keeper final : public IndexPort {
 public:
  explicit Keeper(IndexOptions options)
      : options_(std::move(options)),
        // Another machine's server is some turns of a network away.
        patience_(options_.address.open ? std::max(connect_patience, options_.lease / 4)
                                        : connect_patience),
        thread_([this] { keep(); }) {}
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() override {
    stop_.ring();
    thread_.join();
  }

  const std::string& cluster() const override { return options_.cluster; }
  milliseconds lease() const override { return options_.lease; }
  void open(IndexClient& client) override {
    {
      const std::lock_guard lock(mutex_);
      clients_.push_back(&client);
    }
    wake();
  }
  void close(IndexClient& client) override {
    {
      const std::lock_guard lock(mutex_);
      std::erase(clients_, &client);
      farewells_.push_back(client.farewell());
    }
    wake();
  }
  void wake() override { wake_.ring(); }

 private:
  void keep();
  /// The next that has a question.
  std::optional<IndexQuestion> next_question(IndexClient*& whose, Instant& due);
  void ask(IndexClient* whose, const IndexQuestion& question);
  Result<RedisValue> ask_server(const std::vector<std::string>& words, Deadline until);
  Result<void> connect(Deadline until);
  Result<void> check_policy(Deadline until);
  Result<void> load_functions(Deadline until);
  void say_farewells();
  void tell(const std::string& why);
  /// True when the keeper is to end.
  bool wait(Instant until) const;

  const IndexOptions options_;
  const milliseconds patience_;  // for a connection, and for functions to be loaded
  std::mutex mutex_;             // held while a client is called
  std::vector<IndexClient*> clients_;
  std::vector<std::vector<std::string>> farewells_;
  // The keeper's thread alone.
  std::size_t next_ = 0;  // of the clients
  std::optional<RedisLink> link_;
  std::set<std::string> told_;
  const Bell stop_, wake_;
  std::thread thread_;
};

bool Keeper::wait(Instant until) const {
  const Instant left = std::clamp<Instant>(until - now(), Instant{}, longest_wait);
  std::array<pollfd, 2> events{pollfd{stop_.descriptor(), POLLIN, 0},
                               pollfd{wake_.descriptor(), POLLIN, 0}};
  (void)::poll(events.data(), events.size(),
               static_cast<int>(std::chrono::ceil<milliseconds>(left).count()));
  if (events[1].revents != 0) (void)wake_.hear();
  return events[0].revents != 0;
}

std::optional<IndexQuestion> Keeper::next_question(IndexClient*& whose, Instant& due) {
  const std::lock_guard lock(mutex_);
  due = now() + longest_wait;
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    IndexClient* const client = clients_[(next_ + i) % clients_.size()];
    if (std::optional<IndexQuestion> question = client->ask(now())) {
      next_ = (next_ + i + 1) % clients_.size();
      whose = client;
      return question;
    }
    due = std::min(due, client->due());
  }
  return std::nullopt;
}

void Keeper::keep() {
  for (bool is_over = false; !is_over;) {
    say_farewells();
    IndexClient* whose = nullptr;
    Instant due{};
    const std::optional<IndexQuestion> question = next_question(whose, due);
    if (question) ask(whose, *question);
    is_over = wait(question ? Instant{} : due);
  }
  stop_.hear();
  say_farewells();
}

/// Pages of a pool that is gone are not looked for until its lease is over. The end may cut off a
/// question or a farewell: what is unsaid then is said through a new link.
void Keeper::say_farewells() {
  std::vector<std::vector<std::string>> farewells;
  {
    const std::lock_guard lock(mutex_);
    farewells.swap(farewells_);
  }
  if (farewells.empty()) return;
  failpoint("index_leave");
  std::size_t said = 0;
  while (said < farewells.size() && connect(steady_clock::now() + farewell_patience).ok() &&
         link_->ask(farewells[said], steady_clock::now() + farewell_patience).ok())
    ++said;
  if (said == farewells.size()) return;
  link_.reset();
  const std::lock_guard lock(mutex_);
  farewells_.insert(farewells_.begin(), farewells.begin() + static_cast<std::ptrdiff_t>(said),
                    farewells.end());
}

Result<void> Keeper::check_policy(Deadline until) {
  const Result<RedisValue> info = link_->ask({"INFO", "memory"}, until);
  if (!info.ok()) return info.error();
  if (info->kind == RedisValue::Kind::error) return forbidden(info->text);
  constexpr std::string_view name = "maxmemory_policy:";
  const std::size_t at = info->text.find(name);
  const std::string policy =
      at == std::string::npos
          ? "not told"
          : info->text.substr(at + name.size(), info->text.find('\r', at) - at - name.size());
  if (policy == "noeviction") return {};
  return Error{ErrorCode::invalid_argument,
               "its maxmemory-policy is " + printable(policy) +
                   ", with which names of machines may go too: `CONFIG "
                   "SET maxmemory-policy noeviction`"};
}

Result<void> Keeper::load_functions(Deadline until) {
  const Result<RedisValue> loaded =
      link_->ask({"FUNCTION", "LOAD", std::string(page_index_functions())}, until);
  if (!loaded.ok()) return loaded.error();
  // Another machine of the cluster may have been quicker.
  if (loaded->kind == RedisValue::Kind::text || is_error(*loaded, "already exists")) return {};
  return Error{ErrorCode::invalid_argument,
               "it has not the functions of this version, and its user may not load them ('" +
                   printable(loaded->text) +
                   "'): `sluice pool functions | redis-cli -x FUNCTION LOAD` as one who may"};
}

Result<void> Keeper::connect(Deadline until) {
  if (link_) return {};
  Result<RedisLink> made =
      RedisLink::connect(options_.address, until, stop_.descriptor(), options_.login);
  if (!made.ok()) return made.error();
  link_.emplace(std::move(made).value());
  return check_policy(until);
}

/// Errors: invalid_argument (it is reached, and does not serve), and those of the link.
Result<RedisValue> Keeper::ask_server(const std::vector<std::string>& words, Deadline until) {
  Result<RedisValue> answer = link_->ask(words, until);
  if (!answer.ok() || !is_error(*answer, "Function not found")) return answer;
  const Deadline later = std::max(until, steady_clock::now() + patience_);
  if (const Result<void> loaded = load_functions(later); !loaded.ok()) return loaded.error();
  return link_->ask(words, later);
}

void Keeper::ask(IndexClient* whose, const IndexQuestion& question) {
  const auto asked = steady_clock::now();
  failpoint("index_ask");
  const Result<void> there = connect(asked + patience_);
  Result<RedisValue> answer =
      there.ok() ? ask_server(question.words,
                              steady_clock::now() +
                                  std::chrono::duration_cast<milliseconds>(question.patience))
                 : Result<RedisValue>(there.error());
  failpoint("index_answered");
  if (answer.ok() && is_forbidden(*answer)) answer = forbidden(answer->text);
  if (!answer.ok()) link_.reset();
  if (!answer.ok() && answer.error().code == ErrorCode::invalid_argument)
    tell(answer.error().message);
  std::vector<std::string> words;
  bool is_list = answer.ok() && answer->kind == RedisValue::Kind::list;
  for (std::size_t i = 0; is_list && i < answer->list.size(); ++i) {
    is_list = answer->list[i].kind == RedisValue::Kind::text;
    if (is_list) words.push_back(answer->list[i].text);
  }
  if (!is_list) words.clear();
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(clients_, whose) == clients_.end()) return;
  if (!answer.ok())
    whose->broke(answer.error().message, now());
  else if (answer->kind == RedisValue::Kind::error)
    whose->refused(question.number, printable(answer->text), now());
  else
    whose->answered(question.number, words, now());
}

void Keeper::tell(const std::string& why) {
  constexpr std::size_t most = 16;
  if (!options_.notice || told_.size() >= most || !told_.insert(why).second) return;
  options_.notice("machines are asked for pages one by one, for the registry at " + options_.shown +
                  " does not say who has them: " + why);
}

}  // namespace

std::unique_ptr<IndexPort> make_index_keeper(IndexOptions options) {
  return std::make_unique<Keeper>(std::move(options));
}

}  // namespace sluice
