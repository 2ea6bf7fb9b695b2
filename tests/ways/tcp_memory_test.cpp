// Reads over TCP: owners that stand still, strangers, keys and addresses. What is promised of every
// way is in remote_memory_test.cpp.
#include "runtime/tcp/tcp_memory.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "region_reads.h"
#include "runtime/tcp/tcp_key.h"
#include "runtime/tcp/tcp_owner.h"
#include "runtime/tcp/tcp_wire.h"

using namespace sluice;

namespace {

TcpMemoryOptions options_of(bool is_encrypted = true) {
  TcpMemoryOptions options;
  options.host = "127.0.0.1";
  options.is_encrypted = is_encrypted;
  options.threads = 2;
  return options;
}

std::unique_ptr<RemoteMemory> made(const TcpMemoryOptions& options = options_of()) {
  auto memory = make_tcp_memory(options);
  INFO((memory.ok() ? std::string() : memory.error().message));
  REQUIRE(memory.ok());
  return std::move(memory).value();
}

tcp::Key key_of(RemoteMemory& memory, const Ref<Buffer>& region) {
  return tcp::decode(memory.key(region).value()).value();
}

/// A stranger's connection to an owner.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(tcp::dial({"127.0.0.1", port})) {
    pollfd one{socket_.get(), POLLOUT, 0};
    REQUIRE(::poll(&one, 1, 20'000) == 1);
  }
  void say(std::span<const std::byte> bytes) {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// What is said to it until the owner ends it.
  std::size_t hear_to_the_end() {
    std::size_t all = 0;
    for (std::array<std::byte, 4096> some{};;) {
      pollfd one{socket_.get(), POLLIN, 0};
      REQUIRE(::poll(&one, 1, 20'000) == 1);
      const ssize_t got = ::recv(socket_.get(), some.data(), some.size(), 0);
      if (got <= 0) return all;
      all += static_cast<std::size_t>(got);
    }
  }

 private:
  OwnedFile socket_;
};

}  // namespace

TEST_CASE("what goes with its reads over tcp under way hears of none of them") {
  Child still("[.sealed_owner]"), other("[.sealed_owner]");
  TcpMemoryOptions options = options_of();
  options.threads = 1;
  const auto memory = made(options);
  Ended ended, ended_there;
  auto region = memory->reach(read_all(still.in()), ended);
  auto there = memory->reach(read_all(other.in()), ended_there);
  REQUIRE(region.ok());
  REQUIRE(there.ok());
  (*region)->read(1, {0, 65536}, {65536, 64});
  REQUIRE(ended.wait_for(1));
  still.stop();
  for (std::uint64_t number = 2; number < 100; ++number)
    (*region)->read(number, {0, 65536}, {65536, 64});
  region = Error{};
  // By the one thread of both: whatever it had to say of the first is said.
  (*there)->read(1, {0, 64}, {64, 64});
  CHECK(ended_there.wait_for(1));
  CHECK(ended.ended() == 1);
}

TEST_CASE("reads over tcp of an owner that stands still end, and so do later ones") {
  Child owner("[.sealed_owner]");
  TcpMemoryOptions options = options_of();
  options.silence_most = std::chrono::seconds(1);
  const auto memory = made(options);
  Ended ended;
  auto region = memory->reach(read_all(owner.in()), ended);
  REQUIRE(region.ok());
  const RemoteRegion::Part first{0, 65536}, then{65536, 64};
  (*region)->read(1, first, then);
  REQUIRE(is_right(ended.wait_for(1), first, then));
  // Where nothing has moved for so long, the next read wakes the thread; else it is sent at once.
  if (GENERATE(false, true)) ::poll(nullptr, 0, 1500);
  owner.stop();
  for (std::uint64_t number = 2; number < 100; ++number) (*region)->read(number, first, then);
  CHECK(ended.has_each_ended_once(1, 100));
  CHECK_FALSE(ended.wait_for(99));
  (*region)->read(100, first, then);
  CHECK_FALSE(ended.wait_for(100));
}

namespace {

/// How each question has ended, beside reads.
class Answers final : public RemoteRegion::Listener {
 public:
  void read_ended(std::uint64_t, Ref<Buffer>, std::optional<std::uint32_t>) override { ++reads; }
  void answered(std::uint64_t number, Ref<Buffer> answer) override {
    here += std::this_thread::get_id() == maker_ ? 1 : 0;
    const std::lock_guard lock(mutex_);
    ended_[number].push_back(std::move(answer));
  }
  std::size_t times(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    return ended_[number].size();
  }
  Ref<Buffer> wait_for(std::uint64_t number) {
    REQUIRE(comes_true([&] { return times(number) > 0; }));
    const std::lock_guard lock(mutex_);
    return ended_[number][0];
  }
  std::atomic<std::size_t> reads = 0;
  std::atomic<std::size_t> here = 0;  // answers that the thread took that has made this

 private:
  const std::thread::id maker_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<Ref<Buffer>>> ended_;
};

struct Twice final : RegionGuide {
  void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) override {
    for (int i = 0; i < 2; ++i) answer.insert(answer.end(), question.begin(), question.end());
  }
};

/// A region that somebody guides, and who reads it: by both connections, so both have proved
/// themselves.
struct Guided {
  explicit Guided(bool is_encrypted)
      : owner(made(options_of(is_encrypted))),
        reader(made(options_of(is_encrypted))),
        region(filled(*owner)) {
    owner->guide(region, &guide);
    auto made = reader->reach(owner->key(region).value(), answers);
    REQUIRE(made.ok());
    reached = std::move(made).value();
    for (const std::uint64_t one : {1, 2}) reached->read(one, {0, 64}, {64, 64});
    REQUIRE(comes_true([&] { return answers.reads == 2; }));
  }
  std::unique_ptr<RemoteMemory> owner, reader;
  Ref<Buffer> region;
  Answers answers;
  Twice guide;
  std::unique_ptr<RemoteRegion> reached;
};

}  // namespace

TEST_CASE("what is asked over tcp is answered by who guides the region then, and ends once") {
  for (const bool is_encrypted : {false, true}) {
    const auto owner = made(options_of(is_encrypted)), reader = made(options_of(is_encrypted));
    const Ref<Buffer> region = filled(*owner);
    Answers answers;
    auto reached = reader->reach(owner->key(region).value(), answers);
    REQUIRE(reached.ok());
    const std::vector<std::byte> question(1000, std::byte{7});
    Twice guide;
    std::uint64_t number = 0;
    // By both connections, so both have proved themselves.
    for (const std::uint64_t one : {1, 2}) (*reached)->read(one, {0, 64}, {64, 64});
    REQUIRE(comes_true([&] { return answers.reads == 2; }));
    const auto ask = [&] {
      REQUIRE((*reached)->ask(++number, question));
      return answers.wait_for(number);
    };
    CHECK_FALSE(ask());  // nobody guides
    owner->guide(region, &guide);
    while (number < 100) {
      const Ref<Buffer> answer = ask();
      REQUIRE(answer);
      CHECK(answer->size() == 2000);
      CHECK(answer->data()[1999] == std::byte{7});
    }
    owner->guide(region, nullptr);
    CHECK_FALSE(ask());
    for (std::uint64_t one = 1; one <= number; ++one) CHECK(answers.times(one) == 1);
    CHECK(answers.reads == 2);
  }
}

TEST_CASE("whoever looks takes what it has asked and read over tcp, once, without another thread") {
  for (const bool is_encrypted : {false, true}) {
    Guided guided(is_encrypted);
    RemoteMemory& reader = *guided.reader;
    RemoteRegion& region = *guided.reached;
    Answers& answers = guided.answers;
    CHECK(comes_true([&] { return !reader.look(); }));  // for nothing is awaited
    const std::vector<std::byte> question(1000, std::byte{7});
    const auto until = std::chrono::steady_clock::now() + patience;
    std::uint64_t number = 0;
    // The thread that is woken for it may be there sooner, but not each time.
    while (answers.here == 0 && std::chrono::steady_clock::now() < until) {
      if (!region.ask(number + 1, question)) continue;
      ++number;
      while (answers.times(number) == 0) (void)reader.look();
      region.read(number, {0, 1000}, {1000, 64});
      while (answers.reads < number + 2) (void)reader.look();
    }
    CHECK(answers.here == 1);
    const Ref<Buffer> answer = answers.wait_for(number);
    REQUIRE(answer);
    CHECK(answer->size() == 2000);
    CHECK(answer->data()[1999] == std::byte{7});
    for (std::uint64_t one = 1; one <= number; ++one) CHECK(answers.times(one) == 1);
    CHECK(answers.reads == number + 2);
  }
}

TEST_CASE("over tcp what nobody looks for any more is heard, and so is all else while one looks") {
  for (const bool is_encrypted : {false, true}) {
    Guided guided(is_encrypted);
    RemoteMemory& reader = *guided.reader;
    RemoteRegion& region = *guided.reached;
    Answers& answers = guided.answers;
    const std::vector<std::byte> question(1000, std::byte{7});
    // After no look, ten, or twenty.
    for (std::uint64_t number = 1; number <= 60; ++number) {
      while (!region.ask(number, question)) (void)reader.look();
      for (std::uint64_t look = 0; look < number % 3 * 10; ++look) (void)reader.look();
      REQUIRE(answers.wait_for(number));
      CHECK(answers.times(number) == 1);
    }
    std::atomic<bool> is_over{false};
    std::thread looks([&] {
      while (!is_over) (void)reader.look();
    });
    Answers others;
    {
      auto other = reader.reach(guided.owner->key(guided.region).value(), others);
      REQUIRE(other.ok());
      for (std::uint64_t one = 1; one <= 20; ++one) (*other)->read(one, {0, 64}, {64, 64});
      CHECK(comes_true([&] { return others.reads == 20; }));
      REQUIRE(comes_true([&] { return (*other)->ask(21, question); }));
      CHECK(others.wait_for(21));
    }
    is_over = true;
    looks.join();
  }
}

TEST_CASE("a question over tcp to an owner that stands still or dies ends without an answer") {
  for (const bool dies : {false, true}) {
    Child owner("[.sealed_owner]");
    TcpMemoryOptions options = options_of();
    options.silence_most = std::chrono::seconds(1);
    options.threads = 1;
    const auto memory = made(options);
    Answers answers;
    auto region = memory->reach(read_all(owner.in()), answers);
    REQUIRE(region.ok());
    const std::vector<std::byte> question(100, std::byte{7});
    (*region)->read(1, {0, 64}, {64, 64});
    REQUIRE(comes_true([&] { return answers.reads == 1; }));
    owner.stop();
    REQUIRE((*region)->ask(1, question));
    (*region)->read(2, {0, 65536}, {65536, 64});  // behind it
    if (dies) owner.kill();
    CHECK_FALSE(answers.wait_for(1));
    CHECK(comes_true([&] { return answers.reads == 2; }));
    CHECK(comes_true([&] { return !(*region)->ask(2, question); }));
    CHECK(answers.times(1) == 1);
  }
}

TEST_CASE("a key over tcp has a secret for each reader, and one of other bytes is none") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const std::vector<std::byte> key = memory->key(region).value();
  CHECK(key != memory->key(region).value());  // another secret for another reader
  CHECK(tcp::decode(key).has_value());
  constexpr std::size_t host = 9;  // "127.0.0.1"
  for (std::size_t size = 0; size + host <= key.size(); ++size)
    CHECK_FALSE(tcp::decode(std::span(key).first(size)).has_value());
  std::vector<std::byte> longer = key;
  longer.push_back({});
  CHECK_FALSE(tcp::decode(longer).has_value());  // "127.0.0.1" and a zero is no address
  Ended ended;
  longer.resize(200);
  CHECK_FALSE(memory->reach(longer, ended).ok());
}

TEST_CASE("reads of a region that its owner has let go of end without bytes") {
  const auto memory = made(), other = made();
  Ref<Buffer> region = filled(*memory);
  Ended ended;
  auto reached = other->reach(memory->key(region).value(), ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {0, 64}, {64, 64});
  CHECK(ended.wait_for(1));
  region = {};
  std::uint64_t number = 2;
  const auto is_refused = [&] {
    (*reached)->read(number, {0, 64}, {64, 64});
    return !ended.wait_for(number++);
  };
  CHECK(comes_true(is_refused));
}

TEST_CASE("another life's key, and a wrong secret, open nothing over tcp") {
  const auto memory = made(), next = made(), reader = made();
  const Ref<Buffer> region = filled(*memory), other = filled(*next);
  Ended ended;
  tcp::Key earlier = key_of(*memory, region);
  earlier.owner.port = key_of(*next, other).owner.port;
  tcp::Key wrong = key_of(*next, other);
  wrong.secret[0] ^= 1;
  std::uint64_t number = 1;
  for (const tcp::Key& key : {earlier, wrong}) {
    auto reached = reader->reach(tcp::encode(key), ended);
    REQUIRE(reached.ok());
    (*reached)->read(number, {0, 64}, {64, 64});
    CHECK_FALSE(ended.wait_for(number++));
  }
}

TEST_CASE("a port that answers nothing ends reads in time") {
  // Takes no connection, or takes it and says nothing.
  for (const bool is_full : {true, false}) {
    std::uint16_t port = 0;
    OwnedFile listener(tcp::listen_at("127.0.0.1", port).value());
    std::vector<Stranger> before;
    if (is_full) {
      REQUIRE(::listen(listener.get(), 0) == 0);
      before.emplace_back(port);  // waits for ever to be taken: there is room for no other
    }
    TcpMemoryOptions options = options_of();
    options.handshake_most = std::chrono::milliseconds(200);
    const auto memory = made(options);
    tcp::Key key{{"127.0.0.1", port}, 1, region_bytes, true, {}};
    Ended ended;
    auto reached = memory->reach(tcp::encode(key), ended);
    REQUIRE(reached.ok());
    for (std::uint64_t number = 1; number < 10; ++number)
      (*reached)->read(number, {0, 64}, {64, 64});
    CHECK(ended.has_each_ended_once(1, 10));
    CHECK_FALSE(ended.wait_for(9));
  }
}

TEST_CASE("strangers are bounded in number and time, and keep nobody out") {
  TcpMemoryOptions options = options_of();
  options.handshake_most = std::chrono::seconds(2);
  auto owner = tcp::Owner::make(options, 1);
  REQUIRE(owner.ok());
  const std::shared_ptr<tcp::Region> region = tcp::Region::make(region_bytes);
  const tcp::Key key = (*owner)->grant(region);
  const std::array<std::byte, tcp::hello_bytes> hello = encode(tcp::Hello{key.grant, true, {}});
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (std::size_t i = 0; i < 3 * tcp::Owner::strangers_most; ++i) {
    strangers.push_back(std::make_unique<Stranger>(key.owner.port));
    // Nothing; half a hello; all of it, and never a proof.
    strangers.back()->say(std::span(hello).first(i % 3 * hello.size() / 2));
    CHECK((*owner)->connections() <= tcp::Owner::strangers_most + 1);
  }
  const auto memory = made();
  Ended ended;
  auto reached = memory->reach(tcp::encode(key), ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {0, 64}, {64, 64});
  CHECK(ended.wait_for(1));
  // All of them are ended, having been told a welcome at most.
  for (const auto& one : strangers) CHECK(one->hear_to_the_end() <= tcp::welcome_bytes);
  CHECK(comes_true([&] { return (*owner)->connections() <= options.threads; }));
  (*reached)->read(2, {0, 64}, {64, 64});
  CHECK(ended.wait_for(2));
}

TEST_CASE("who says nonsense is ended at once") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const tcp::Key key = key_of(*memory, region);
  Stranger stranger(key.owner.port);
  stranger.say(std::vector<std::byte>(100'000, std::byte{0x41}));
  CHECK(stranger.hear_to_the_end() == 0);
}

TEST_CASE(
    "where pages may be read over tcp is one interface, of this computer where nothing is "
    "encrypted") {
  for (const char* host : {"0.0.0.0", "::", "", "localhost", "203.0.113.7"}) {
    TcpMemoryOptions options = options_of();
    options.host = host;
    const auto memory = make_tcp_memory(options);
    CHECK_FALSE(memory.ok());
    if (!memory.ok()) CHECK(memory.error().message.find(host) != std::string::npos);
  }
  TcpMemoryOptions far = options_of(false);
  far.host = "203.0.113.7";
  const auto refused = make_tcp_memory(far);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("without keys nothing is encrypted") != std::string::npos);
  // Nor is memory read elsewhere, or otherwise than this side does.
  const auto plain = made(options_of(false)), sealed = made();
  Ended ended;
  tcp::Key key{{"203.0.113.7", 9}, 1, 64, false, {}};
  CHECK_FALSE(plain->reach(tcp::encode(key), ended).ok());
  key.owner.host = "127.0.0.1";
  CHECK(plain->reach(tcp::encode(key), ended).ok());
  CHECK_FALSE(sealed->reach(tcp::encode(key), ended).ok());
  key.is_encrypted = true;
  CHECK_FALSE(plain->reach(tcp::encode(key), ended).ok());
}
