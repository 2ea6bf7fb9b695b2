// Processes of a machine that share parts of checkpoints: one makes a part, the others get the same
// memory; whoever is killed, gives up or says nonsense, nobody waits for nobody.
#include "engine/checkpoint/part_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "engine/checkpoint/part_client.h"
#include "engine/checkpoint/weight_arena.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

const PartKey text{1}, vision{2};

/// What a process makes: a matrix of this number.
OwnedFile memory_of(float number, const PartKey& part = text) {
  WeightArena arena = WeightArena::make(part).value();
  const Tensor tensor = Tensor::of_f32({4, 4}, std::vector<float>(16, number));
  (void)arena.keep("matrix", kernels::Weight::from(tensor).value());
  return arena.seal().value();
}

float number_in(const PartLease& lease, const PartKey& part = text) {
  const WeightArena arena = WeightArena::attach(lease.memory(), part).value();
  return arena.find("matrix", 4, 4, kernels::WeightFormat::exact)->f32()[15];
}

ino_t file_of(const OwnedFile& memory) {
  struct stat about {};
  REQUIRE(::fstat(memory.get(), &about) == 0);
  return about.st_ino;
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// A process of the machine: `work` with its client, until it is told to end or killed.
class Process {
 public:
  Process(PartExchange& exchange, const std::string& name,
          const std::function<void(const PartClient&, const std::function<void()>&)>& work) {
    OwnedFile socket = exchange.join(name).value();
    std::array<int, 2> reached{}, end{};
    REQUIRE((::pipe2(reached.data(), O_CLOEXEC) == 0 && ::pipe2(end.data(), O_CLOEXEC) == 0));
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      // What the test has of other processes must not outlive them here.
      ::close(end[1]);
      const PartClient client(OwnedFile(::dup(socket.get())), milliseconds(60'000));
      work(client, [&] {
        char byte = 'x';
        (void)!::write(reached[1], &byte, 1);
      });
      char byte = 0;
      (void)!::read(end[0], &byte, 1);
      ::_exit(0);
    }
    reached_ = OwnedFile(reached[0]);
    end_ = OwnedFile(end[1]);
    ::close(reached[1]);
    ::close(end[0]);
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Until it says that it is there.
  void meet() const {
    char byte = 0;
    REQUIRE(::read(reached_.get(), &byte, 1) == 1);
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  void end() {
    end_ = OwnedFile();
    wait();
  }

 private:
  void wait() {
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid_ = -1;
  OwnedFile reached_, end_;
};

struct Machine {
  PartExchange exchange;
  PartClient client(const std::string& name, milliseconds patience = milliseconds(60'000)) {
    return PartClient(exchange.join(name).value(), patience);
  }
  /// Until the exchange has heard what was said to it.
  std::vector<PartExchange::Report> until(
      const std::function<bool(const std::vector<PartExchange::Report>&)>& is_so) {
    for (;;) {
      std::vector<PartExchange::Report> report = exchange.report();
      if (is_so(report)) return report;
      std::this_thread::yield();
    }
  }
  void until_waiting(std::size_t count) {
    until([&](const auto& report) {
      return report.size() == 1 && report[0].waiting.size() == count;
    });
  }
  void until_empty() {
    until([](const auto& report) { return report.empty(); });
  }
};

}  // namespace

TEST_CASE("the first process makes a part and the others get its memory") {
  Machine machine;
  const PartClient a = machine.client("host 'a'"), b = machine.client("host 'b'");
  std::optional<PartLease> first = a.ask(text, "text of m").value();
  CHECK_FALSE(first->is_there());
  auto second = std::async(std::launch::async, [&] { return b.ask(text, "text of m"); });
  machine.until_waiting(1);
  auto report = machine.exchange.report();
  CHECK(report[0].what == "text of m");
  CHECK(report[0].maker == "host 'a'");
  CHECK(report[0].waiting == std::vector<std::string>{"host 'b'"});
  CHECK(report[0].bytes == 0);

  const OwnedFile memory = memory_of(7);
  REQUIRE(first->made(memory).ok());
  std::optional<PartLease> got = second.get().value();
  REQUIRE(got->is_there());
  CHECK(file_of(got->memory()) == file_of(memory));
  CHECK(number_in(*got) == 7);
  std::optional<PartLease> third = b.ask(text, "text of m").value();
  CHECK(file_of(third->memory()) == file_of(memory));
  CHECK_FALSE(b.ask(vision, "vision of m")->is_there());  // and gives it up at once
  report = machine.until([](const auto& all) { return all.size() == 1; });
  CHECK(report[0].holders == std::vector<std::string>{"host 'a'", "host 'b'", "host 'b'"});
  CHECK(report[0].bytes == static_cast<std::uint64_t>(WeightArena::attach(memory, text)->bytes()));

  first.reset();
  third.reset();
  machine.until([](const auto& all) { return all.size() == 1 && all[0].holders.size() == 1; });
  CHECK(number_in(*a.ask(text, "text of m")) == 7);  // as long as one has it
  got.reset();
  machine.until_empty();
  CHECK_FALSE(a.ask(text, "text of m")->is_there());
}

TEST_CASE("when the process that makes a part is killed, at any point, the next one is not lost") {
  enum Point { asked, began, filled, sealed, handed_on };
  for (const Point point : {asked, began, filled, sealed, handed_on}) {
    CAPTURE(point);
    Machine machine;
    Process maker(machine.exchange, "host 'maker'",
                  [&](const PartClient& client, const auto& meet) {
                    const PartLease lease = client.ask(text, "text of m").value();
                    const auto stay_at = [&](Point at) {
                      if (point != at) return;
                      meet();
                      ::pause();
                    };
                    stay_at(asked);
                    WeightArena arena = WeightArena::make(text).value();
                    stay_at(began);
                    const Tensor tensor = Tensor::of_f32({4, 4}, std::vector<float>(16, 3));
                    (void)arena.keep("matrix", kernels::Weight::from(tensor).value());
                    stay_at(filled);
                    const OwnedFile memory = arena.seal().value();
                    stay_at(sealed);
                    (void)lease.made(memory).ok();
                    stay_at(handed_on);
                  });
    maker.meet();
    const PartClient client = machine.client("host 'next'");
    auto next = std::async(std::launch::async, [&] { return client.ask(text, "text of m"); });
    if (point != handed_on)
      machine.until_waiting(1);
    else
      machine.until([](const auto& all) { return all[0].holders.size() == 2; });
    maker.kill();
    std::optional<PartLease> lease = next.get().value();
    if (point == handed_on) {
      CHECK(number_in(*lease) == 3);
    } else {
      REQUIRE_FALSE(lease->is_there());
      REQUIRE(lease->made(memory_of(4)).ok());
      const PartClient later = machine.client("host 'later'");
      CHECK(number_in(*later.ask(text, "text of m")) == 4);
    }
    lease.reset();
    machine.until_empty();
  }
}

TEST_CASE("a process that waits and is killed is not waited for, and leaves nothing") {
  Machine machine;
  const PartClient a = machine.client("host 'a'");
  std::optional<PartLease> lease = a.ask(text, "text of m").value();
  {
    Process waits(machine.exchange, "host 'waits'", [](const PartClient& client, const auto& meet) {
      meet();
      (void)client.ask(text, "text of m").ok();
    });
    waits.meet();
    machine.until_waiting(1);
    waits.kill();
    machine.until_waiting(0);
  }
  REQUIRE(lease->made(memory_of(1)).ok());
  machine.until([](const auto& all) { return all[0].holders.size() == 1; });
  lease.reset();
  machine.until_empty();
}

TEST_CASE("a process lets those that it starts take part, under its name, and they outlive it") {
  Machine machine;
  std::optional<PartClient> read(machine.exchange.join("machine 'read'").value());
  const PartClient host(read->join("host 'x'").value());
  const PartClient write = machine.client("machine 'write'", milliseconds(20));
  std::optional<PartLease> lease = host.ask(text, "text of m").value();
  REQUIRE_FALSE(lease->is_there());
  CHECK(write.ask(text, "text of m").error().message ==
        "host 'x' of machine 'read' loads text of m and has not done so within 20 ms");
  read.reset();
  REQUIRE(lease->made(memory_of(6)).ok());
  CHECK(number_in(*machine.client("machine 'later'").ask(text, "text of m")) == 6);
  CHECK(number_in(*host.ask(text, "text of m")) == 6);
  lease.reset();
  machine.until_empty();
}

TEST_CASE("processes that one lets take part count as its asks, until they have gone") {
  Machine machine;
  const PartClient a = machine.client("machine 'a'"), b = machine.client("machine 'b'");
  std::deque<PartClient> hosts;
  while (hosts.size() < PartExchange::asks_max)
    if (auto socket = a.join("host"); socket.ok())  // unless its socket is full
      hosts.emplace_back(std::move(socket).value());
  CHECK(a.ask(text, "text of m").error().code == ErrorCode::unavailable);
  const PartClient left_out(a.join("one too many").value());
  CHECK(left_out.ask(text, "text of m").error().code == ErrorCode::unavailable);
  CHECK(hosts.back().ask(text, "text of m").ok());
  CHECK(b.ask(text, "text of m").ok());
  hosts.pop_back();
  while (!a.ask(text, "text of m").ok()) std::this_thread::yield();
  // None of them lets others take part.
  const PartClient further(hosts.back().join("further").value());
  CHECK(further.ask(text, "text of m").error().code == ErrorCode::unavailable);
}

TEST_CASE("when who brings processes together stands still nobody waits for a part") {
  const auto sockets = packet_sockets().value();
  const PartClient a(OwnedFile(::dup(sockets.first.get())), milliseconds(60'000), milliseconds(20));
  const auto asked = a.ask(text, "text of m");
  REQUIRE_FALSE(asked.ok());
  CHECK(asked.error().code == ErrorCode::unavailable);
  CHECK(asked.error().message == "who brings processes together says nothing within 20 ms");
}

TEST_CASE("whoever gives a part up without making it lets the next one make it") {
  Machine machine;
  const PartClient a = machine.client("host 'a'"), b = machine.client("host 'b'");
  std::optional<PartLease> lease = a.ask(text, "text of m").value();
  auto next = std::async(std::launch::async, [&] { return b.ask(text, "text of m"); });
  machine.until_waiting(1);
  lease.reset();  // as where the checkpoint is damaged
  CHECK_FALSE(next.get()->is_there());
}

TEST_CASE("who waits too long is told for whom, and is not waiting any more") {
  Machine machine;
  const PartClient a = machine.client("host 'slow'");
  const PartClient b = machine.client("host 'b'", milliseconds(20));
  const PartLease lease = a.ask(text, "text of m").value();
  const auto late = b.ask(text, "text of m");
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().code == ErrorCode::deadline);
  CHECK(late.error().message == "host 'slow' loads text of m and has not done so within 20 ms");
  machine.until_waiting(0);
  REQUIRE(lease.made(memory_of(5)).ok());
  CHECK(number_in(*b.ask(text, "text of m")) == 5);
}

TEST_CASE("an exchange that ends leaves nobody waiting") {
  auto machine = std::make_unique<Machine>();
  const PartClient a = machine->client("host 'a'"), b = machine->client("host 'b'");
  const PartLease lease = a.ask(text, "text of m").value();
  auto next = std::async(std::launch::async, [&] { return b.ask(text, "text of m"); });
  machine->until_waiting(1);
  machine.reset();
  CHECK(next.get().error().code == ErrorCode::unavailable);
  CHECK(a.ask(vision, "vision of m").error().code == ErrorCode::unavailable);
  CHECK_FALSE(lease.made(memory_of(1)).ok());
}

TEST_CASE("memory that is not sealed, or comes from who was not asked, is nobody's") {
  Machine machine;
  const PartClient a = machine.client("host 'a'"), b = machine.client("host 'b'");
  const PartLease wrong = a.ask(text, "text of m").value();
  auto next = std::async(std::launch::async, [&] { return b.ask(text, "text of m"); });
  machine.until_waiting(1);
  const OwnedFile open_memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  (void)wrong.made(open_memory).ok();
  const PartLease right = next.get().value();
  REQUIRE_FALSE(right.is_there());
  (void)wrong.made(memory_of(1)).ok();  // it has ended
  REQUIRE(right.made(memory_of(2)).ok());
  const PartLease third = a.ask(text, "text of m").value();
  CHECK(number_in(third) == 2);
  (void)third.made(memory_of(3)).ok();  // it was not to
  machine.until([](const auto& all) { return all.size() == 1 && all[0].holders.size() == 1; });
  CHECK(number_in(*b.ask(text, "text of m")) == 2);
}

TEST_CASE("a process that says nonsense is left to itself, and the others go on") {
  Machine machine;
  const PartClient good = machine.client("host 'good'");
  const PartLease held = good.ask(text, "text of m").value();
  REQUIRE(held.made(memory_of(9)).ok());
  const OwnedFile nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto is_closed = [](int socket) {
    pollfd event{socket, POLLIN, 0};
    return ::poll(&event, 1, -1) == 1 && receive_packet(socket).error().code != ErrorCode::corrupt;
  };
  std::vector<std::vector<std::byte>> packets = {
      {}, std::vector<std::byte>(1), std::vector<std::byte>(part_packet_max + 100)};
  packets.push_back(encode({PartPacket::Kind::ask, text, "without a socket"}));
  packets.push_back(encode({PartPacket::Kind::make, {}, {}}));
  packets.push_back(encode({PartPacket::Kind::ask, text, ""}));
  packets.back()[0] = std::byte{9};
  packets.back().resize(20);
  for (const auto& packet : packets) {
    const OwnedFile bad = machine.exchange.join("host 'bad'").value();
    REQUIRE(::send(bad.get(), packet.data(), packet.size(), MSG_NOSIGNAL) >= 0);
    CHECK(is_closed(bad.get()));
  }
  for (const auto kind : {PartPacket::Kind::make, PartPacket::Kind::made, PartPacket::Kind::have,
                          PartPacket::Kind::wait}) {
    const OwnedFile bad = machine.exchange.join("host 'bad'").value();
    REQUIRE(send_packet(bad.get(), {kind, {}, "x"}, nothing.get()).ok());
    CHECK(is_closed(bad.get()));
  }
  // A file in the place of a socket ends that ask alone.
  const OwnedFile odd = machine.exchange.join("host 'odd'").value();
  REQUIRE(send_packet(odd.get(), {PartPacket::Kind::ask, vision, "x"}, nothing.get()).ok());
  machine.until([](const auto& all) { return all.size() == 1; });
  CHECK(number_in(*good.ask(text, "text of m")) == 9);
}

TEST_CASE("asks of one process are bounded, and those of others are not") {
  Machine machine;
  const PartClient a = machine.client("host 'a'"), b = machine.client("host 'b'");
  const PartLease first = a.ask(text, "text of m").value();
  REQUIRE(first.made(memory_of(1)).ok());
  const PartClient many = machine.client("host 'many'");
  std::vector<PartLease> leases;
  for (std::size_t i = 0; i < PartExchange::asks_max; ++i)
    leases.push_back(many.ask(text, "text of m").value());
  CHECK(many.ask(text, "text of m").error().code == ErrorCode::unavailable);
  CHECK(b.ask(text, "text of m")->is_there());
  leases.pop_back();
  machine.until([](const auto& all) {
    return all[0].holders.size() == PartExchange::asks_max;  // with who made it
  });
  CHECK(many.ask(text, "text of m")->is_there());
}

TEST_CASE("descriptors are as many as before when those who shared have gone") {
  const std::size_t before = descriptors();
  {
    Machine machine;
    {
      const PartClient a = machine.client("host 'a'");
      const PartLease lease = a.ask(text, "text of m").value();
      REQUIRE(lease.made(memory_of(1)).ok());
      const PartLease again = a.ask(text, "text of m").value();
      const std::size_t used = descriptors();
      Process killed(machine.exchange, "host 'b'", [](const PartClient& client, const auto& meet) {
        const PartLease mine = client.ask(text, "text of m").value();
        meet();
        ::pause();
      });
      killed.meet();
      killed.kill();
      // Of the one that was killed its ask ends, and its membership, in either order: when both
      // have gone, only the test's own pipes are left.
      machine.until([&](const auto& all) {
        return all[0].holders.size() == 2 && descriptors() <= used + 2;
      });
    }
    machine.until_empty();
  }
  CHECK(descriptors() == before);
}

TEST_CASE("memory goes with the last process that has it") {
  Machine machine;
  const PartClient a = machine.client("host 'a'");
  const std::size_t before = descriptors();
  {
    const PartLease lease = a.ask(text, "text of m").value();
    REQUIRE(lease.made(memory_of(1)).ok());
    CHECK(number_in(*a.ask(text, "text of m")) == 1);
  }
  machine.until_empty();
  CHECK(descriptors() == before);
}

TEST_CASE("calls to the system that fail leave a process to itself") {
  Machine machine;
  const PartClient a = machine.client("host 'a'");
  for (const char* call : {"socketpair", "sendmsg"}) {
    {
      const test::FailingCall failing(call, EMFILE);
      CHECK(a.ask(text, "text of m").error().code == ErrorCode::unavailable);
    }
    const test::FailingCall failing(call, EMFILE);
    CHECK(a.join("host 'b'").error().code == ErrorCode::unavailable);
  }
  {
    const test::FailingCall failing("socketpair", EMFILE);
    CHECK_THAT(machine.exchange.join("host 'b'").error().message, Contains("Too many open files"));
  }
  CHECK_FALSE(a.ask(text, "text of m")->is_there());
}
