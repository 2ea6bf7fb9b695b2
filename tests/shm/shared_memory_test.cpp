// What one machine lends to another of the same computer, and how it comes back.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tensor.h"
#include "tests/shm/world.h"

using namespace sluice;
using namespace sluice::testing;
using shm::BlockPool;

namespace {

constexpr std::size_t big = std::size_t{16} << 20U;

bool is_all_free(shm::SharedMemory& memory) {
  const BlockPool::Totals totals = memory.totals();
  return totals.free == totals.capacity;
}

struct Pair {
  Folder folder;
  std::unique_ptr<shm::SharedMemory> one = machine(options_of(folder, {1, 5}));
  std::unique_ptr<shm::SharedMemory> two = machine(options_of(folder, {2, 7}));
  Pair() {
    one->meet({2, 7});
    two->meet({1, 5});
  }
};

}  // namespace

TEST_CASE("a value is read where it stands, and its block is free when its reader lets go") {
  Pair pair;
  const Ref<Buffer> bytes = pattern(big, 1);
  const wire::Handle handle = lend(*pair.one, {2, 7}, bytes);
  {
    const Result<Ref<Buffer>> read = pair.two->borrow({1, 5}, handle, big);
    REQUIRE(read.ok());
    CHECK(equal(*read, bytes));
    CHECK_FALSE((*read)->may_write());
    CHECK(pair.one->totals().used == big);
    CHECK(pair.one->counts(2).held_bytes == big);
  }
  CHECK(until([&] { return is_all_free(*pair.one); }));
  const LentCounts counts = pair.one->counts(2);
  CHECK(counts.in_place == 1);
  CHECK(counts.copied == 1);
  CHECK(counts.in_place_bytes == big);
  const Result<Ref<Buffer>> stale = pair.two->borrow({1, 5}, handle, big);
  REQUIRE_FALSE(stale.ok());
  CHECK(stale.error().code == ErrorCode::corrupt);
}

TEST_CASE("what is written in shared memory is lent without a copy, and stays as it was") {
  Pair pair;
  lend(*pair.one, {2, 7}, pattern(big, 9));
  Ref<Buffer> bytes = pair.one->make(big);
  REQUIRE(bytes);
  CHECK(bytes->may_write());
  std::memcpy(bytes->data(), pattern(big, 2)->data(), big);
  Tensor tensor = Tensor::over(Dtype::u8, {static_cast<std::int64_t>(big)}, bytes).value();
  bytes = {};
  const wire::Handle handle = lend(*pair.one, {2, 7}, tensor.buffer());
  CHECK(pair.one->counts(2).copied == 1);  // the first
  tensor.u8()[0] ^= 255U;                  // of its own copy by now
  tensor = Tensor();
  const Result<Ref<Buffer>> read = pair.two->borrow({1, 5}, handle, big);
  REQUIRE(read.ok());
  CHECK(equal(*read, pattern(big, 2)));
}

TEST_CASE("what cannot be lent goes in the message, and the reason is kept") {
  Folder folder;
  const auto one = machine(options_of(folder, {1, 5}));
  const Ref<Buffer> bytes = pattern(big, 1);
  CHECK_FALSE(one->lend({2, 7}, pattern(100, 1)));
  CHECK(one->counts(2).in_message == 0);  // too small to count
  CHECK_FALSE(one->lend({9, 1}, bytes));
  CHECK(one->counts(9).why == "it is reached over a network");
  CHECK_FALSE(one->lend({2, 7}, bytes));
  CHECK(one->counts(2).why == "it has not asked for this machine's memory");
  const auto two = machine(options_of(folder, {2, 7}));
  two->meet({1, 5});
  const wire::Handle first = lend(*one, {2, 7}, bytes);
  CHECK(one->lend({2, 7}, bytes));
  CHECK_FALSE(one->lend({2, 7}, bytes));  // half of all is a reader's bound
  CHECK(one->counts(2).why == "it holds 32 MiB that it has not given back");
  CHECK_FALSE(one->lend({2, 7}, bytes));
  CHECK(one->take_notices().size() == 1);  // once
  CHECK(one->take_notices().empty());
  const Ref<Buffer> mine = one->make(2 * big);
  REQUIRE(mine);
  CHECK_FALSE(one->make(big));
  one->take_back({2, 7}, first);
  CHECK(one->make(big));
}

TEST_CASE("the largest value that is lent takes a whole slab") {
  Folder folder;
  shm::SharedMemoryOptions options = options_of(folder, {1, 5});
  options.reader_bytes_max = BlockPool::slab_bytes;
  const auto one = machine(std::move(options));
  const auto two = machine(options_of(folder, {2, 7}));
  two->meet({1, 5});
  lend(*one, {2, 7}, Buffer::zeros(BlockPool::slab_bytes));
  CHECK_FALSE(one->lend({2, 7}, Buffer::zeros(BlockPool::slab_bytes + 1)));
  CHECK(one->counts(2).why == "they are larger than a slab");
}

TEST_CASE("a full pool is no error: the value goes in the message") {
  Pair pair;
  lend(*pair.one, {2, 7}, pattern(big, 1));
  const Ref<Buffer> mine = pair.one->make(2 * big);
  const Ref<Buffer> more = pair.one->make(big);
  REQUIRE((mine && more));
  CHECK_FALSE(pair.one->lend({2, 7}, pattern(big, 1)));
  CHECK(pair.one->counts(2).why == "the 64 MiB of shared memory have no free block of their size");
  CHECK(pair.one->take_notices().size() == 1);
}

TEST_CASE("a reader that is suspected keeps what it reads, until it is gone") {
  Pair pair;
  const wire::Handle handle = lend(*pair.one, {2, 7}, pattern(big, 1));
  pair.one->suspect({2, 7});
  CHECK(pair.one->totals().quarantined == big);
  CHECK_FALSE(pair.one->lend({2, 7}, pattern(big, 1)));
  CHECK(pair.one->counts(2).why == "it is not heard");
  Ref<Buffer> read = pair.two->borrow({1, 5}, handle, big).value();
  pair.two.reset();  // its role still reads
  CHECK(equal(read, pattern(big, 1)));
  CHECK(pair.one->totals().quarantined == big);
  read = {};
  CHECK(until([&] { return is_all_free(*pair.one); }));
}

TEST_CASE("an owner's end leaves its readers what they read, and nothing after them") {
  const std::size_t descriptors = open_descriptors(), slabs = mapped_slabs();
  {
    Pair pair;
    const wire::Handle handle = lend(*pair.one, {2, 7}, pattern(big, 3));
    Ref<Buffer> read = pair.two->borrow({1, 5}, handle, big).value();
    Ref<Buffer> mine = pair.one->make(big);
    pair.one.reset();
    std::memset(mine->data(), 1, big);
    CHECK(equal(read, pattern(big, 3)));
    pair.two->suspect({1, 5});
    CHECK(until([&] { return !pair.two->borrow({1, 5}, handle, big).ok(); }));
    CHECK(equal(read, pattern(big, 3)));
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_slabs() == slabs);
}

TEST_CASE("each life of a machine has memory of its own") {
  Pair pair;
  const wire::Handle before = lend(*pair.one, {2, 7}, pattern(big, 1));
  pair.one.reset();
  pair.one = machine(options_of(pair.folder, {1, 6}));
  pair.two->suspect({1, 5});
  pair.two->meet({1, 6});
  const wire::Handle after = lend(*pair.one, {2, 7}, pattern(big, 2));
  CHECK(before == after);  // names mean something in one life only
  CHECK_FALSE(pair.two->borrow({1, 5}, before, big).ok());
  CHECK(equal(pair.two->borrow({1, 6}, after, big).value(), pattern(big, 2)));
}

TEST_CASE("a reader that is killed gives back everything, and its memory goes with it") {
  Folder folder;
  int word[2];
  REQUIRE(::pipe2(word, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The other process: maps what it is shown, and stands still until it is killed.
    Result<std::unique_ptr<shm::SharedMemory>> made =
        shm::SharedMemory::make(options_of(folder, {2, 7}));
    if (!made) ::_exit(1);
    const char ready = 'r';
    if (::write(word[1], &ready, 1) != 1) ::_exit(1);
    (*made)->meet({1, 5});
    for (;;) ::pause();
  }
  char ready = 0;
  REQUIRE(::read(word[0], &ready, 1) == 1);
  {
    const auto one = machine(options_of(folder, {1, 5}));
    lend(*one, {2, 7}, pattern(big, 1));
    lend(*one, {2, 7}, pattern(big, 2));
    CHECK(one->totals().used == 2 * big);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(until([&] { return is_all_free(*one); }));
  }
  ::close(word[0]);
  ::close(word[1]);
}
