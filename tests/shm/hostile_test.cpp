// Peers on the socket of shared memory that say what they should not.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/file_packets.h"
#include "base/random.h"
#include "tests/shm/world.h"

using namespace sluice;
using namespace sluice::testing;
using namespace sluice::shm;

namespace {

constexpr std::size_t small = std::size_t{64} << 10U;

Packet next_packet(const OwnedFile& socket) {
  Packet packet;
  REQUIRE(until([&] {
    packet = receive_packet(socket);
    return packet.kind != Packet::Kind::none;
  }));
  return packet;
}

std::string declined(const OwnedFile& socket) {
  for (;;) {
    const Packet packet = next_packet(socket);
    REQUIRE(packet.kind == Packet::Kind::word);
    if (const Declined* no = std::get_if<Declined>(&packet.word)) return no->why;
  }
}

/// A reader that has greeted as machine 3 and has been shown the slab.
struct Rogue {
  Folder folder;
  std::unique_ptr<SharedMemory> owner = machine(options_of(folder, {1, 5}));
  OwnedFile socket;

  Rogue() { socket = std::move(connect_to(folder.socket(1)).value()); }
  void say(const Word& word) const { REQUIRE(send_word(socket, word) == Sent::yes); }
  void greet() const {
    say(Greeting{{3, 1}, {1, 5}});
    const Packet packet = next_packet(socket);
    REQUIRE(packet.kind == Packet::Kind::word);
    REQUIRE(std::holds_alternative<Offer>(packet.word));
    REQUIRE(packet.descriptor);
  }
};

/// The two ends of a connection to an owner that is nobody.
struct FalseOwner {
  OwnedFile owner;
  std::shared_ptr<Attachment> reader;

  FalseOwner() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) ==
            0);
    owner = OwnedFile(ends[0]);
    reader = std::make_shared<Attachment>(Origin{1, 1}, OwnedFile(ends[1]),
                                          std::make_shared<const Bell>());
  }
  std::string refused() const {
    std::string why;
    CHECK_FALSE(reader->hear(why));
    CHECK(reader->is_over());
    return why;
  }
};

OwnedFile memory(off_t size, int seals) {
  OwnedFile file(::memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(file);
  REQUIRE(::ftruncate(file.get(), size) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
  return file;
}

}  // namespace

TEST_CASE("a reader that says what it should not is declined") {
  const Rogue rogue;
  SECTION("nothing before a greeting") {
    rogue.say(Mapped{0});
    CHECK(declined(rogue.socket) == "no greeting");
  }
  SECTION("an empty packet") {
    REQUIRE(::send(rogue.socket.get(), "", 0, MSG_NOSIGNAL) == 0);
    CHECK(declined(rogue.socket) == "an empty packet");
  }
  SECTION("too long a packet") {
    const std::string bytes(word_bytes_max + 1, 'x');
    REQUIRE(::send(rogue.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
    CHECK(declined(rogue.socket) == "too long a packet");
  }
  SECTION("no word") {
    REQUIRE(::send(rogue.socket.get(), "GET /", 5, MSG_NOSIGNAL) == 5);
    CHECK(declined(rogue.socket).find("not a word about shared memory") != std::string::npos);
  }
  SECTION("a machine that is not of this computer") {
    rogue.say(Greeting{{9, 1}, {1, 5}});
    CHECK(declined(rogue.socket) == "no machine 9 of this computer");
  }
  SECTION("an owner's word") {
    rogue.greet();
    rogue.say(Offer{0});
    CHECK(declined(rogue.socket) == "a word that only an owner says");
  }
  SECTION("a second greeting") {
    rogue.greet();
    rogue.say(Greeting{{2, 1}, {1, 5}});
    CHECK(declined(rogue.socket) == "a second greeting");
  }
  SECTION("another reader's life") {
    rogue.greet();
    const OwnedFile other = std::move(connect_to(rogue.folder.socket(1)).value());
    REQUIRE(send_word(other, Greeting{{3, 1}, {1, 5}}) == Sent::yes);
    CHECK(declined(other) == "this life has greeted before");
  }
  SECTION("a slab that it was not shown") {
    rogue.greet();
    rogue.say(Mapped{1});
    CHECK(declined(rogue.socket) == "it says that it mapped slab 1");
  }
  SECTION("another life of the owner is meant") {
    rogue.say(Greeting{{3, 1}, {1, 4}});
    CHECK(next_packet(rogue.socket).kind == Packet::Kind::ended);
  }
}

TEST_CASE("a block that a reader does not have is not given back, and what it has stays") {
  Rogue rogue;
  rogue.greet();
  rogue.say(Mapped{0});
  const wire::Handle handle = lend(*rogue.owner, {3, 1}, pattern(small, 1));
  const wire::Handle wrong =
      GENERATE_COPY(wire::Handle{handle.slab, handle.block, handle.generation + 1},
                    wire::Handle{handle.slab, handle.block + 1, handle.generation},
                    wire::Handle{handle.slab, BlockPool::slab_units, handle.generation},
                    wire::Handle{1, handle.block, handle.generation}, wire::Handle{~0U, ~0U, 0});
  rogue.say(Back{{wrong}});
  static_cast<void>(rogue.owner->totals());  // what is given back is heard when memory is counted
  CHECK(declined(rogue.socket).find("which it does not have") != std::string::npos);
  CHECK(rogue.owner->totals().quarantined == small);
  rogue.say(Back{{handle}});  // nobody listens any more
  CHECK_FALSE(rogue.owner->lend({3, 1}, pattern(small, 1)));
  rogue.socket.close();
  CHECK(until([&] { return rogue.owner->totals().free == BlockPool::slab_bytes; }));
}

TEST_CASE("an owner that shows anything but a sealed slab is not read") {
  const std::size_t descriptors = open_descriptors(), slabs = mapped_slabs();
  {
    const FalseOwner pair;
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    const auto show = [&](const OwnedFile& file, std::uint32_t slab = 0) {
      REQUIRE(send_word(pair.owner, Offer{slab}, file.get()) == Sent::yes);
      return pair.refused();
    };
    SECTION("no descriptor") { CHECK(show(OwnedFile()) == "no descriptor came with it"); }
    SECTION("a file") {
      OwnedFile file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
      REQUIRE(file);
      // A temporary file system's files can be sealed too, others not.
      const std::string why = show(file);
      CHECK((why == "the descriptor is not of memory that can be sealed" ||
             why == "the memory is not sealed"));
    }
    SECTION("a pipe") {
      std::array<int, 2> ends{};
      REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
      const OwnedFile read(ends[0]), write(ends[1]);
      CHECK(show(read) == "the descriptor is not of memory that can be sealed");
    }
    SECTION("not sealed") { CHECK(show(memory(slab_file_bytes, 0)) == "the memory is not sealed"); }
    SECTION("half sealed") {
      CHECK(show(memory(slab_file_bytes, F_SEAL_GROW)) == "the memory is not sealed");
    }
    SECTION("too short") {
      CHECK(show(memory(off_t{slab_file_bytes} - 1, sealed)) ==
            "the memory has another size than a slab");
    }
    SECTION("too long") {
      CHECK(show(memory(off_t{slab_file_bytes} + 1, sealed)) ==
            "the memory has another size than a slab");
    }
    SECTION("not the next") {
      CHECK(show(memory(slab_file_bytes, sealed), 1) == "slab 1 is not the next");
    }
    SECTION("a reader's word") {
      REQUIRE(send_word(pair.owner, Mapped{0}) == Sent::yes);
      CHECK(pair.refused() == "a word that only a reader says");
    }
    SECTION("more slabs than there may be") {
      const OwnedFile slab = memory(slab_file_bytes, sealed);
      std::string why;
      for (std::uint32_t i = 0; i < Attachment::slabs_max; ++i) {
        REQUIRE(send_word(pair.owner, Offer{i}, slab.get()) == Sent::yes);
        REQUIRE(pair.reader->hear(why));
      }
      CHECK(show(slab, Attachment::slabs_max) == "slab 64 is not the next");
    }
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_slabs() == slabs);
}

TEST_CASE("descriptors beyond one are closed, and the packet is refused") {
  const FalseOwner pair;
  const std::size_t descriptors = open_descriptors();
  std::array<int, 3> sent{pair.owner.get(), pair.owner.get(), pair.owner.get()};
  REQUIRE(send_with_files(pair.owner.get(), write_word(Offer{0}), sent, 0) > 0);
  CHECK(pair.refused() == "more than one descriptor in a packet");
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("a handle that its owner's memory does not bear out is refused") {
  Folder folder;
  const auto owner = machine(options_of(folder, {1, 5}));
  const auto reader = machine(options_of(folder, {2, 7}));
  reader->meet({1, 5});
  const wire::Handle handle = lend(*owner, {2, 7}, pattern(small, 1));
  const auto is_refused = [&](Origin from, const wire::Handle& wrong, std::size_t size) {
    const Result<Ref<Buffer>> read = reader->borrow(from, wrong, size);
    return !read.ok() && read.error().code == ErrorCode::corrupt;
  };
  CHECK(reader->borrow({1, 5}, handle, small).ok());
  CHECK(is_refused({1, 4}, handle, small));  // another life's
  CHECK(is_refused({3, 5}, handle, small));  // another machine's
  CHECK(is_refused({1, 5}, {1, handle.block, handle.generation}, small));
  CHECK(is_refused({1, 5}, {~0U, handle.block, handle.generation}, small));
  CHECK(is_refused({1, 5}, {0, BlockPool::slab_units, handle.generation}, small));
  CHECK(is_refused({1, 5}, {0, ~0U, handle.generation}, small));
  CHECK(is_refused({1, 5}, {0, handle.block, 0}, small));
  CHECK(is_refused({1, 5}, {0, handle.block, handle.generation + 1}, small));
  CHECK(is_refused({1, 5}, {0, handle.block + 1, handle.generation}, small));
  CHECK(is_refused({1, 5}, {0, handle.block, handle.generation}, BlockPool::slab_bytes + 1));
  CHECK(is_refused({1, 5}, {0, BlockPool::slab_units - 1, 0}, 2 * BlockPool::unit_bytes));
}

TEST_CASE("a slab can be written by its owner only") {
  const Result<std::unique_ptr<Slab>> slab = Slab::make();
  REQUIRE(slab.ok());
  const int file = (*slab)->descriptor();
  const int seals = ::fcntl(file, F_GET_SEALS);
  CHECK((seals & F_SEAL_SHRINK) != 0);
  CHECK((seals & F_SEAL_SEAL) != 0);
  CHECK(::ftruncate(file, 0) != 0);
  if ((seals & 0x10) == 0) {
    WARN("this kernel has no F_SEAL_FUTURE_WRITE");
    return;
  }
  CHECK(Mapping::of(file, true).get() == nullptr);
  CHECK(::pwrite(file, "x", 1, 0) < 0);
}

TEST_CASE("words are read as they were written, and no others are") {
  const std::vector<Word> words{Greeting{{1, 2}, {3, 4}}, Offer{7}, Mapped{300},
                                Back{{{1, 2, 3}, {~0U, ~0U, ~std::uint64_t{0}}}}, Declined{"no"}};
  SplitMix64 random(1);
  for (const Word& word : words) {
    const wire::Bytes bytes = write_word(word);
    const Result<Word> read = read_word(bytes);
    REQUIRE(read.ok());
    CHECK(write_word(*read) == bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(read_word(std::span(bytes).first(size)).ok());
    for (int i = 0; i < 2000; ++i) {
      wire::Bytes changed = bytes;
      changed[random.next() % changed.size()] = static_cast<std::byte>(random.next());
      const Result<Word> other = read_word(changed);
      const bool is_same = !other.ok() || write_word(*other) == changed;
      REQUIRE(is_same);
    }
  }
  Back many;
  many.handles.resize(handles_max + 1);
  CHECK_FALSE(read_word(write_word(many)).ok());
}
