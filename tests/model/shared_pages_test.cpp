// Processes over one pool of pages: what one writes the other reads where it stands, whoever is
// killed leaves nothing, and who says nonsense is detached.
#include "engine/storage/shared_pages.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/little_endian.h"

using namespace sluice;

namespace {

constexpr std::uint32_t pages = 64;
constexpr std::uint32_t rows = 4;        // of a page
constexpr std::uint32_t row_bytes = 64;  // of each row
constexpr std::uint32_t run = 8;         // pages leased at once

SharedPagesShape shape() {
  SharedPagesShape made{pages, rows, rows * row_bytes, {}};
  made.secret[3] = 7;
  return made;
}

/// Also in a child, where a failed check of the framework would be said to nobody.
bool in_child = false;
void must(bool holds) {
  if (in_child && !holds) ::_exit(95);
  REQUIRE(holds);
}

PageKey key_of(std::uint64_t n) { return {{n + 1, n, n, n}}; }

/// A process's part: its way, and the memory.
struct Part {
  explicit Part(AttachedPages from)
      : attached(std::move(from)), client(*attached.port, attached.shape.rows_per_page, run) {}
  AttachedPages attached;
  PageClient client;

  std::span<std::byte> row(const AttachedSequence& sequence, std::uint32_t at) const {
    const std::size_t page = sequence.pages()[at / rows];
    return {attached.bytes->data() + page * attached.shape.page_bytes + at % rows * row_bytes,
            row_bytes};
  }
  /// Rows of one byte each up to so many, as the number of the history says.
  void write(AttachedSequence& sequence, std::uint32_t to, std::uint32_t history) {
    std::vector<CopyPage> copies;
    const std::uint32_t from = sequence.rows();
    must(client.reserve(sequence, to, copies).ok());
    for (const CopyPage& copy : copies)
      std::memcpy(attached.bytes->data() + copy.to * attached.shape.page_bytes,
                  attached.bytes->data() + copy.from * attached.shape.page_bytes,
                  copy.rows * std::size_t{row_bytes});
    for (std::uint32_t at = from; at < to; ++at)
      std::ranges::fill(row(sequence, at), std::byte(history + at));
    client.wrote(sequence, to);
  }
  bool reads(const AttachedSequence& sequence, std::uint32_t history) const {
    for (std::uint32_t at = 0; at < sequence.rows(); ++at)
      for (const std::byte byte : row(sequence, at))
        if (byte != std::byte(history + at)) return false;
    return true;
  }
};

std::unique_ptr<Part> attach(OwnedFile socket) {
  auto attached = AttachedPages::attach(std::move(socket));
  must(attached.ok());
  return std::make_unique<Part>(std::move(attached).value());
}

/// This process, too.
std::unique_ptr<Part> own_part(SharedPages& shared) {
  return std::make_unique<Part>(
      AttachedPages{shared.shape(), shared.bytes(), shared.port("this").value()});
}

/// Another process, which does that and then waits to be killed.
class Child {
 public:
  Child(SharedPages& shared, const std::string& name, const std::function<void(Part&)>& does) {
    OwnedFile socket = shared.connect(name).value();
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      in_child = true;
      const std::unique_ptr<Part> part = attach(std::move(socket));
      does(*part);
      (void)!::write(ends[1], "x", 1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    done_ = OwnedFile(ends[0]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Until it has done it.
  void wait() const {
    char said = 0;
    REQUIRE(::read(done_.get(), &said, 1) == 1);
  }
  bool lives() const {
    std::this_thread::yield();
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(process_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           state.si_pid == 0;
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(std::exchange(process_, -1), nullptr, 0);
  }

 private:
  pid_t process_ = -1;
  OwnedFile done_;
};

/// As soon as so many are attached.
SharedPages::Report report(SharedPages& shared, std::size_t attached) {
  for (;;) {
    SharedPages::Report seen = shared.report();
    if (seen.attached.size() == attached) return seen;
    std::this_thread::yield();
  }
}

constexpr attached::OfferToken token = 0x1234567890abcdef;

}  // namespace

TEST_CASE("what one process has published another reads where it stands, also behind its death") {
  auto shared = SharedPages::make(shape()).value();
  const auto own = own_part(*shared);
  std::vector<PageKey> keys;
  for (std::uint64_t n = 0; n < 5; ++n) keys.push_back(key_of(n));
  Child child(*shared, "writer", [&](Part& part) {
    AttachedSequence said = part.client.open({}).value();
    part.write(said, 5 * rows + 2, 1);
    must(part.client.publish(said, keys).value() == 5);
    AttachedSequence half = part.client.open({}).value();
    part.write(half, 3, 99);  // never to be seen
    static_cast<void>(new AttachedSequence(std::move(said)));
    static_cast<void>(new AttachedSequence(std::move(half)));
    part.client.flush();
  });
  child.wait();
  const SharedPages::Report during = report(*shared, 2);
  CHECK(during.attached[1].name == "writer");
  CHECK(during.attached[1].held.sequences == 2);
  CHECK(during.attached[1].held.pages == run);  // some of them leased still
  AttachedSequence found = own->client.open(keys).value();
  CHECK(found.rows() == 5 * rows);
  CHECK(own->reads(found, 1));
  child.kill();
  const SharedPages::Report after = report(*shared, 1);
  CHECK(after.free == pages - 5);
  CHECK(after.cached == 0);
  CHECK(own->reads(found, 1));
  found = AttachedSequence();
  own->client.flush();
  CHECK(shared->report().cached == 5);
  CHECK(own->client.open(keys).value().rows() == 5 * rows);
  CHECK(shared->report().refused.empty());
}

TEST_CASE("a history that is offered goes on in another process, and not a row is copied") {
  auto shared = SharedPages::make(shape()).value();
  const auto own = own_part(*shared);
  AttachedSequence said = own->client.open({}).value();
  own->write(said, 3 * rows + 1, 7);
  REQUIRE(own->client.offer(said, token).ok());
  const std::vector<Page> before(said.pages().begin(), said.pages().end());
  Child child(*shared, "painter", [&](Part& part) {
    auto taken = part.client.accept(token).value();
    must(taken.has_value() && std::ranges::equal(taken->pages(), std::span(before).first(4)));
    must(part.reads(*taken, 7));
    must(part.client.accept(token).value().has_value());  // as often as it is wanted
    part.write(*taken, 4 * rows, 7);  // copies the page that is partly filled: 1 row
    static_cast<void>(new AttachedSequence(std::move(*taken)));
    part.client.flush();
  });
  child.wait();
  own->write(said, 3 * rows + 3, 7);
  CHECK(own->reads(said, 7));
  CHECK(std::ranges::equal(std::span(before).first(3), said.pages().first(3)));
  child.kill();
  (void)report(*shared, 1);
  CHECK(own->reads(said, 7));
}

TEST_CASE("processes that are killed at any point leave all pages to be had") {
  auto shared = SharedPages::make(shape()).value();
  const auto own = own_part(*shared);
  AttachedSequence mine = own->client.open({}).value();
  own->write(mine, 9, 50);
  for (int round = 0; round < 40; ++round) {
    // It goes on until it is killed, somewhere.
    Child child(*shared, "busy", [&](Part& part) {
      for (std::uint32_t n = 0;; ++n) {
        AttachedSequence one = part.client.open(std::vector{key_of(n % 7)}).value();
        part.write(one, one.rows() + 1 + n % 11, n % 7);
        if (one.rows() >= rows && one.published() == 0)
          (void)part.client.publish(one, std::vector{key_of(n % 7)});
        AttachedSequence other = part.client.fork(one);
        part.write(other, other.rows() + 2, n % 7);
        if (n % 5 == 0) must(part.client.offer(other, n).ok());
        if (n % 5 == 2) part.client.withdraw(n - 2);
      }
    });
    // As many batches later as the round says: no clock.
    const std::uint64_t until =
        shared->report().batches + static_cast<std::uint64_t>(7 * round + 3);
    while (shared->report().batches < until) must(child.lives());
    child.kill();
    const SharedPages::Report after = report(*shared, 1);
    CHECK(after.refused.empty());
    CHECK(after.free + after.cached + after.attached[0].held.pages == pages);
    CHECK(own->reads(mine, 50));
    for (std::uint64_t n = 0; n < 7; ++n) {
      const AttachedSequence found = own->client.open(std::vector{key_of(n)}).value();
      CHECK(own->reads(found, static_cast<std::uint32_t>(n)));
    }
    own->client.flush();
  }
}

TEST_CASE("a process that says nonsense is detached, and its words are told") {
  auto shared = SharedPages::make(shape()).value();
  const auto own = own_part(*shared);
  const auto says = [&](const std::vector<std::byte>& bytes) {
    const OwnedFile socket = shared->connect("liar").value();
    REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    const SharedPages::Report seen = report(*shared, 1);
    return seen.refused.size() == 1 ? seen.refused[0]
                                    : "refused: " + std::to_string(seen.refused.size());
  };
  const auto framed = [](const std::vector<attached::Request>& batch) {
    const auto body = attached::encode(batch);
    std::vector<std::byte> bytes;
    append_little_endian(body.size(), 4, bytes);
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
  };
  const std::string begins = "liar was detached from the pages: ";
  CHECK(says(std::vector<std::byte>(4, std::byte{0xff})) == begins + "a batch of 4294967295 bytes");
  CHECK(says({std::byte{1}, {}, {}, {}, std::byte{9}}) ==
        begins + "byte 0: the message ends early");
  CHECK(says(framed({attached::Release{4}})) == begins + "there is no sequence 4");
  CHECK(says(framed({attached::Open{1, {}}, attached::Reserve{1, 9, 9, 0}})) ==
        begins + "it wrote 9 rows, where it had 0 and room for 0");
  CHECK(shared->report().free == pages);
}

TEST_CASE("who asks a process that has gone is told so, and memory that is none is refused") {
  auto shared = SharedPages::make(shape()).value();
  OwnedFile socket = shared->connect("left").value();
  auto attached = AttachedPages::attach(std::move(socket));
  REQUIRE(attached.ok());
  PageClient client(*attached->port, rows, run);
  CHECK(client.open({}).ok());
  shared = nullptr;
  CHECK(client.open({}).error().message == "the process that has the pages has gone");
  CHECK(client.open({}).error().code == ErrorCode::unavailable);
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const OwnedFile other(ends[0]);
  std::vector<std::byte> words(52);
  REQUIRE(::send(other.get(), words.data(), words.size(), 0) == 52);
  CHECK(AttachedPages::attach(OwnedFile(ends[1])).error().message ==
        "the memory of the pages did not come");
  CHECK(map_page_memory(OwnedFile(::dup(STDIN_FILENO)), 1).error().message ==
        "the memory of the pages is not sealed");
  const PageMemory memory = PageMemory::make(4096).value();
  CHECK(map_page_memory(memory.file, 8192).error().message ==
        "the memory of the pages has another size than the pool");
  CHECK(::ftruncate(memory.file.get(), 0) != 0);
}
