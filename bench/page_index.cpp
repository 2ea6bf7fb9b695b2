// What the index of pages costs: a question of 1, 16 and 128 pages beside the server's own round
// trip, pages told in a second, and how long a turn of telling holds its pool's lock.
//
// Usage: bench_page_index
// A redis-server of its own on a unix socket, 100,000 pages of eight machines in it, each of which
// has a part of every prompt. Round trips (PING, GET of 16 bytes) and questions go over the same
// connection of this thread, by turns; medians of 501, and a tenth and nine tenths. Whoever waits
// sleeps in poll, the server as it does; nobody spins. It ends itself after a minute.
#include "dataplane/page_index.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/usage.h"
#include "runtime/redis/index_keeper.h"
#include "runtime/redis/page_index.h"
#include "runtime/redis/private_server.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t owners = 8;
constexpr std::size_t all_pages = 100'000, turns = 501;
constexpr std::size_t question_pages[] = {1, 16, 128};
constexpr std::chrono::seconds patience{5};
const std::string pool = "sluice:bench:pages:1", large_pool = "sluice:bench:pages:2";

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench_page_index: %s\n", why.c_str());
  std::_Exit(1);  // the server ends with this process
}

PageIndex::Instant now() { return Clock::now().time_since_epoch(); }

double microseconds(const std::function<void()>& what) {
  const auto from = Clock::now();
  what();
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}
/// Of this thread on a processor.
double processor_microseconds(const std::function<void()>& what) {
  timespec from{}, to{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  what();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  return static_cast<double>(to.tv_sec - from.tv_sec) * 1e6 +
         static_cast<double>(to.tv_nsec - from.tv_nsec) / 1e3;
}

double part_of(std::vector<double> of, std::size_t tenths) {
  std::ranges::sort(of);
  return of[(of.size() - 1) * tenths / 10];
}
double median(const std::vector<double>& of) { return part_of(of, 5); }

/// It ends with this process, and has nothing of its input and outputs.
class Server {
 public:
  explicit Server(const std::string& folder) {
    auto command = private_redis_command(folder, "bench");
    if (!command.ok()) give_up(command.error().message);
    for (const char* word : {"--user", "root", "on", "nopass", "~*", "+@all"})
      command->emplace_back(word);
    std::vector<char*> words;
    for (std::string& word : *command) words.push_back(word.data());
    words.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) ::dup2(nothing, stream);
    if (::getppid() == parent) ::execv(words[0], words.data());
    ::_exit(127);
  }
  ~Server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  pid_t pid_;
};

/// The bench's connection, which counts round trips.
class Link {
 public:
  explicit Link(const RedisAddress& address) : link_(made(address)) {}

  RedisValue ask(const std::vector<std::string>& words) {
    ++trips;
    Result<RedisValue> answer = link_.ask(words, Clock::now() + patience);
    if (!answer.ok()) give_up(answer.error().message);
    if (answer->kind == RedisValue::Kind::error) give_up(answer->text);
    return std::move(answer).value();
  }

  std::size_t trips = 0;

 private:
  static RedisLink made(const RedisAddress& address) {
    for (const auto until = Clock::now() + patience;;) {
      Result<RedisLink> link = RedisLink::connect(address, until, -1, RedisLogin{"root", "x", ""});
      if (link.ok()) return std::move(link).value();
      if (Clock::now() > until) give_up(link.error().message);
      ::poll(nullptr, 0, 5);  // it is not there yet
    }
  }

  RedisLink link_;
};

PageKey key_of(std::uint64_t prompt, std::uint64_t page) {
  SplitMix64 random((prompt << 32U) + page);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

PageIndex::Settings settings_of(const std::string& base, std::uint32_t machine) {
  return {base, {machine, 1}, std::chrono::minutes(10), "bench"};
}

/// What the machine has to say goes over the link. `turn`: one of the machine's, by its question.
void say(PageIndex& index, Link& link,
         const std::function<std::optional<IndexQuestion>(PageIndex&)>& turn) {
  while (const std::optional<IndexQuestion> question = turn(index)) {
    std::vector<std::string> words;
    for (const RedisValue& word : link.ask(question->words).list) words.push_back(word.text);
    index.answered(question->number, words, now());
    if (!index.down().empty()) give_up(index.down());
  }
}
std::optional<IndexQuestion> plain_turn(PageIndex& index) { return index.ask(now()); }

/// Machine m has the first m / 8 of each prompt, one page at least, and others' pages.
void fill(Link& link) {
  const auto from = Clock::now();
  for (std::uint32_t machine = 1; machine <= owners; ++machine) {
    PageIndex index(settings_of(pool, machine));
    std::size_t pages = 0;
    for (const std::size_t prompt : question_pages)
      for (std::size_t page = 0; page < std::max<std::size_t>(prompt * machine / owners, 1); ++page)
        index.published(key_of(prompt, page), now()), ++pages;
    for (; pages < all_pages / owners; ++pages)
      index.published(key_of(1000 + machine, pages), now());
    say(index, link, plain_turn);
    if (!index.is_told()) give_up("not all pages were told");
  }
  const double took = std::chrono::duration<double>(Clock::now() - from).count();
  std::printf("%zu pages of %u machines told in %zu round trips, %.2f s: %.0f pages a second\n",
              all_pages, owners, link.trips, took, static_cast<double>(all_pages) / took);
}

/// A pool's question to the index by the product's keeper, from the pool's thread and back.
class Asker final : private IndexClient {
 public:
  explicit Asker(const RedisAddress& address) : index_(settings_of(pool, 100)) {
    IndexOptions options;
    options.address = address;
    options.shown = "the bench's";
    options.cluster = "bench";
    options.lease = std::chrono::minutes(10);
    options.notice = [](const std::string& line) { give_up(line); };
    keeper_ = make_index_keeper(std::move(options));
    keeper_->open(*this);
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, patience, [&] { return index_.is_told(); }))
      give_up("the keeper does not reach the server");
  }
  ~Asker() override { keeper_->close(*this); }

  void find(const std::vector<PageKey>& keys) {
    std::unique_lock lock(mutex_);
    const PageIndex::Instant since = now();
    if (!index_.find(++asked_, keys, since)) give_up("it is not asked: " + index_.down());
    lock.unlock();
    keeper_->wake();
    lock.lock();
    std::vector<PageIndex::Found> found;
    const bool came = came_.wait_for(lock, patience, [&] {
      found = index_.take_found(since);
      return !found.empty();
    });
    if (!came || found[0].providers.empty()) give_up("a question was not answered");
  }

 private:
  std::optional<IndexQuestion> ask(Instant at) override {
    const std::lock_guard lock(mutex_);
    return index_.ask(at);
  }
  Instant due() const override {
    const std::lock_guard lock(mutex_);
    return index_.due();
  }
  void answered(std::uint64_t number, const std::vector<std::string>& words, Instant at) override {
    const std::lock_guard lock(mutex_);
    index_.answered(number, words, at);
    came_.notify_all();
  }
  void refused(std::uint64_t, const std::string& why, Instant) override { give_up(why); }
  void broke(const std::string& why, Instant) override { give_up(why); }
  std::vector<std::string> farewell() const override { return index_.farewell(); }

  mutable std::mutex mutex_;
  std::condition_variable came_;
  PageIndex index_;
  std::uint64_t asked_ = 0;
  std::unique_ptr<IndexPort> keeper_;
};

void print(const char* what, const std::vector<double>& took, const std::vector<double>& beside) {
  std::printf("  %-40s %7.1f us (%.1f to %.1f), %.2f of a GET\n", what, median(took),
              part_of(took, 1), part_of(took, 9), median(took) / median(beside));
}

/// What the server's statistics say of the calls since they were emptied, in us.
double server_time(Link& link) {
  const std::string text = link.ask({"INFO", "commandstats"}).text;
  constexpr std::string_view name = "cmdstat_fcall:", member = "usec_per_call=";
  const std::size_t at = text.find(name), value = text.find(member, at);
  if (at == std::string::npos || value == std::string::npos) give_up("no statistics of FCALL");
  return std::strtod(text.c_str() + value + member.size(), nullptr);
}

void question(Link& link, Asker& asker, std::size_t count) {
  std::vector<PageKey> keys;
  for (std::size_t page = 0; page < count; ++page) keys.push_back(key_of(count, page));
  PageIndex index(settings_of(pool, 101));
  say(index, link, plain_turn);
  std::vector<double> ping, get, found, by_keeper;
  link.ask({"CONFIG", "RESETSTAT"});
  std::size_t trips = 0;
  for (std::uint64_t turn = 1; turn <= turns; ++turn) {
    ping.push_back(microseconds([&] { link.ask({"PING"}); }));
    get.push_back(microseconds([&] { link.ask({"GET", "bench"}); }));
    const std::size_t before = link.trips;
    found.push_back(microseconds([&] {
      if (!index.find(turn, keys, now())) give_up("it is not asked: " + index.down());
      say(index, link, plain_turn);
      const auto answers = index.take_found(now());
      if (answers.size() != 1 || answers[0].providers.size() != owners ||
          answers[0].providers[0].pages != count)
        give_up("it is not found who has the pages");
    }));
    trips += link.trips - before;
    by_keeper.push_back(microseconds([&] { asker.find(keys); }));
  }
  std::printf("a question of %zu pages: %.2f round trips; in the server %.1f us\n", count,
              static_cast<double>(trips) / turns, server_time(link));
  print("PING", ping, get);
  print("GET", get, get);
  print("the question, over the same connection", found, get);
  print("and by the keeper's thread", by_keeper, get);
}

/// As many pages of one machine as the index takes, for which a forward may wait a turn each.
void tell_anew(Link& link) {
  PageIndex index(settings_of(large_pool, 1));
  for (std::uint64_t page = 0; page < PageIndex::pages_told_most; ++page)
    index.published(key_of(2000, page), now());
  std::vector<double> took;
  const auto from = Clock::now();
  say(index, link, [&](PageIndex& one) {
    std::optional<IndexQuestion> question;
    took.push_back(processor_microseconds([&] { question = one.ask(now()); }));
    return question;
  });
  if (!index.is_told()) give_up("not all pages were told");
  std::printf(
      "all told anew: %zu pages in %.2f s; a turn under the lock %.0f us of the processor, the "
      "longest %.0f\n",
      static_cast<std::size_t>(PageIndex::pages_told_most),
      std::chrono::duration<double>(Clock::now() - from).count(), median(took),
      *std::ranges::max_element(took));
}

void measure(const RedisAddress& address) {
  Link link(address);
  link.ask({"FUNCTION", "LOAD", std::string(page_index_functions())});
  link.ask({"SET", "bench", "sixteen bytes---"});
  link.trips = 0;
  fill(link);
  Asker asker(address);
  for (const std::size_t count : question_pages) question(link, asker, count);
  tell_anew(link);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = usage_status(argc, argv, "usage: bench_page_index")) return *status;
  ::alarm(60);
  std::string folder = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) give_up("no folder under /tmp");
  {
    const Server server(folder);
    measure({private_redis_socket(folder), "", 0});
  }
  std::filesystem::remove_all(folder);
  return 0;
}
