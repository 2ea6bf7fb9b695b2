// Shared memory at its limits: sizes, counts, lives, and what waits to be given back.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <deque>

#include "runtime/shm/attachment.h"
#include "runtime/shm/packets.h"
#include "tests/shm/world.h"

using namespace sluice;
using namespace sluice::testing;
using namespace sluice::shm;

namespace {

constexpr std::size_t small = std::size_t{64} << 10U;
constexpr std::size_t slab = BlockPool::slab_bytes;
constexpr int kind_of_socket = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;

std::string words(const LentCounts& counts) {
  return std::to_string(counts.in_place) + " in place of " + std::to_string(counts.in_place_bytes) +
         ", copied " + std::to_string(counts.copied) + ", in messages " +
         std::to_string(counts.in_message) + " of " + std::to_string(counts.in_message_bytes) +
         ", held " + std::to_string(counts.held_bytes) + ": " + counts.why;
}

Packet next_packet(const OwnedFile& socket) {
  Packet packet;
  REQUIRE(until([&] {
    packet = receive_packet(socket);
    return packet.kind != Packet::Kind::none;
  }));
  return packet;
}

OwnedFile reader_of(const Folder& folder, Origin life) {
  OwnedFile socket = std::move(connect_to(folder.socket(1)).value());
  REQUIRE(send_word(socket, Greeting{life, {1, 5}}) == Sent::yes);
  const Packet packet = next_packet(socket);
  REQUIRE(packet.kind == Packet::Kind::word);
  REQUIRE(std::holds_alternative<Offer>(packet.word));
  return socket;
}

}  // namespace

TEST_CASE("a machine's memory is as many whole slabs as it may have, from 1 to 64") {
  Folder folder;
  for (const auto& [bytes, slabs] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 1},
                                                        {slab - 1, 1},
                                                        {2 * slab - 1, 1},
                                                        {2 * slab, 2},
                                                        {64 * slab, 64},
                                                        {65 * slab, 64}}) {
    SharedMemoryOptions options = options_of(folder, {1, 5});
    options.bytes_max = bytes;
    const auto one = machine(std::move(options));
    CHECK(one->totals().capacity == slabs * slab);
    CHECK(one->totals().free == slabs * slab);
  }
  CHECK_FALSE(std::filesystem::exists(folder.socket(1)));
}

TEST_CASE("values below the least size are neither made nor lent there, nor counted") {
  Folder folder;
  const auto one = machine(options_of(folder, {1, 5}));
  const OwnedFile reader = reader_of(folder, {3, 1});
  REQUIRE(send_word(reader, Mapped{0}) == Sent::yes);
  lend(*one, {3, 1}, pattern(small, 1));
  CHECK_FALSE(one->make(small - 1));
  const Ref<Buffer> made = one->make(small);
  REQUIRE(made);
  CHECK(made->size() == small);
  CHECK_FALSE(one->make(slab + 1));
  const std::string before = words(one->counts(3));
  CHECK_FALSE(one->lend({3, 1}, pattern(small - 1, 1)));
  CHECK(words(one->counts(3)) == before);
  CHECK(one->lend({3, 1}, made));
  CHECK(one->lend({3, 1}, made));
  CHECK(one->lend({3, 1}, pattern(small + 1, 1)));
}

TEST_CASE("what went which way to a machine is counted, all of it") {
  Folder folder;
  SharedMemoryOptions options = options_of(folder, {1, 5});
  options.reader_bytes_max = 4 * small;
  const auto one = machine(std::move(options));
  const OwnedFile reader = reader_of(folder, {3, 1});
  CHECK(words(one->counts(3)) == "0 in place of 0, copied 0, in messages 0 of 0, held 0: ");
  CHECK_FALSE(one->lend({3, 1}, pattern(small, 1)));
  CHECK(words(one->counts(3)) ==
        "0 in place of 0, copied 0, in messages 1 of 65536, held 0: it has not mapped this "
        "machine's memory");
  CHECK(one->take_notices().empty());
  REQUIRE(send_word(reader, Mapped{0}) == Sent::yes);
  const std::uint64_t tries = [&] {
    lend(*one, {3, 1}, pattern(small, 1));
    return one->counts(3).in_message;
  }();
  const Ref<Buffer> made = one->make(2 * small);
  REQUIRE(one->lend({3, 1}, made));
  const auto counted = [&](const std::string& in_place, std::uint64_t more, std::size_t bytes,
                           const std::string& rest) {
    return in_place + ", in messages " + std::to_string(tries + more) + " of " +
           std::to_string(tries * small + bytes) + rest;
  };
  CHECK(words(one->counts(3)) == counted("2 in place of 196608, copied 1", 0, 0,
                                         ", held 196608: it has not mapped this machine's memory"));
  CHECK(one->lend({3, 1}, pattern(small, 2)));  // four parts of four
  CHECK_FALSE(one->lend({3, 1}, pattern(small + 1, 3)));
  const std::string why = "it holds 0 MiB that it has not given back";
  CHECK(words(one->counts(3)) ==
        counted("3 in place of 262144, copied 2", 1, small + 1, ", held 262144: " + why));
  CHECK(one->take_notices() ==
        std::vector{"values for machine 3 travel in messages, where they are copied: " + why});
  CHECK(one->counts(2).in_place == 0);
  CHECK(one->counts(2).held_bytes == 0);
}

TEST_CASE("who is suspected gets nothing until it is met again, that life and earlier ones") {
  Folder folder;
  const auto one = machine(options_of(folder, {1, 5}));
  const OwnedFile reader = reader_of(folder, {3, 7});
  REQUIRE(send_word(reader, Mapped{0}) == Sent::yes);
  const Ref<Buffer> bytes = pattern(small, 1);
  lend(*one, {3, 7}, bytes);
  const auto lends = [&] { return one->lend({3, 7}, bytes).has_value(); };
  one->suspect({3, 6});
  CHECK(lends());
  one->suspect({2, 7});
  CHECK(lends());
  CHECK(one->totals().quarantined == 0);
  for (const std::uint32_t life : {7U, 9U}) {
    one->suspect({3, life});
    CHECK_FALSE(lends());
    CHECK(one->counts(3).why == "it is not heard");
    CHECK(one->totals().quarantined == one->counts(3).held_bytes);
    one->meet({3, 6});
    CHECK_FALSE(lends());
    one->meet({3, 7});
    CHECK(lends());
    CHECK(one->totals().quarantined == 0);
  }
  CHECK_FALSE(one->lend({3, 6}, bytes));
  CHECK(one->counts(3).why == "it has not asked for this machine's memory");
  one->take_back({3, 6}, {0, 0, 1});  // nobody's
  CHECK(lends());
}

TEST_CASE("an owner's memory is read until its life, or a later one, is suspected") {
  Folder folder;
  auto one = machine(options_of(folder, {1, 5}));
  const auto two = machine(options_of(folder, {2, 7}));
  two->meet({1, 5});
  const wire::Handle handle = lend(*one, {2, 7}, pattern(small, 1));
  const Result<Ref<Buffer>> kept = two->borrow({1, 5}, handle, small);
  REQUIRE(kept.ok());
  two->suspect({1, 4});
  two->suspect({3, 5});
  one.reset();
  CHECK(two->borrow({1, 5}, handle, small).ok());  // it may come back at once
  two->suspect({1, 6});
  REQUIRE(until([&] {
    two->suspect({1, 6});
    return !two->borrow({1, 5}, handle, small).ok();
  }));
  CHECK(two->borrow({1, 5}, handle, small).error().message ==
        "a handle of a life whose memory is not mapped here");
}

TEST_CASE("blocks of several slabs are lent and read, each slab when its reader has mapped it") {
  Folder folder;
  SharedMemoryOptions options = options_of(folder, {1, 5});
  options.bytes_max = 3 * slab;
  options.reader_bytes_max = 4 * slab;
  const auto one = machine(std::move(options));
  {
    const OwnedFile rogue = reader_of(folder, {3, 1});
    for (std::uint32_t shown = 1; shown < 3; ++shown) {
      const Packet packet = next_packet(rogue);
      REQUIRE(std::get<Offer>(packet.word).slab == shown);
      CHECK(packet.descriptor);
    }
    REQUIRE(send_word(rogue, Mapped{0}) == Sent::yes);
    REQUIRE(send_word(rogue, Mapped{1}) == Sent::yes);
    CHECK_FALSE(one->lend({3, 1}, pattern(small, 1)));
    REQUIRE(send_word(rogue, Mapped{1}) == Sent::yes);
    CHECK(std::get<Declined>(next_packet(rogue).word).why == "it says that it mapped slab 1");
  }
  const auto two = machine(options_of(folder, {2, 7}));
  two->meet({1, 5});
  std::vector<wire::Handle> handles;
  for (unsigned i = 0; i < 3; ++i) handles.push_back(lend(*one, {2, 7}, pattern(slab / 2 + 1, i)));
  CHECK_FALSE(one->make(slab / 2 + 1));
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(handles[i].slab == i);
    const Result<Ref<Buffer>> read = two->borrow({1, 5}, handles[i], slab / 2 + 1);
    REQUIRE(read.ok());
    CHECK(equal(*read, pattern(slab / 2 + 1, i)));
  }
  CHECK(until([&] { return one->totals().free == 3 * slab; }));
  CHECK(two->borrow({1, 5}, {3, 0, 1}, 1).error().message == "slab 3, which it has not shown");
}

TEST_CASE("what a peer declines is told to people, on either side") {
  Folder folder;
  const auto one = machine(options_of(folder, {1, 5}));
  const auto noticed = [](SharedMemory& memory) {
    std::vector<std::string> notices;
    REQUIRE(until([&] {
      notices = memory.take_notices();
      return !notices.empty();
    }));
    REQUIRE(notices.size() == 1);
    return notices[0];
  };
  const OwnedFile reader = reader_of(folder, {3, 1});
  REQUIRE(send_word(reader, Declined{"no room"}) == Sent::yes);
  CHECK(std::get<Declined>(next_packet(reader).word).why == "it declined");
  CHECK(noticed(*one) == "machine 3 does not read this machine's memory: no room");
  // Another that stands at an owner's socket.
  const OwnedFile listener = std::move(listen_at(folder.socket(2)).value());
  one->meet({2, 7});
  std::optional<OwnedFile> owner;
  REQUIRE(until([&] { return (owner = accept_from(listener)).has_value(); }));
  CHECK(std::get<Greeting>(next_packet(*owner).word).from == Origin{1, 5});
  REQUIRE(send_word(*owner, Declined{"not you"}) == Sent::yes);
  CHECK(noticed(*one) == "the memory of machine 2 is not read: its owner declined: not you");
  CHECK(std::get<Declined>(next_packet(*owner).word).why == "its owner declined: not you");
  CHECK(receive_packet(*owner).kind == Packet::Kind::none);
}

TEST_CASE("a reader hears 64 words in a turn, and is shown 64 slabs") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, kind_of_socket, 0, ends.data()) == 0);
  const OwnedFile owner(ends[0]);
  const auto reader = std::make_shared<Attachment>(Origin{1, 1}, OwnedFile(ends[1]),
                                                   std::make_shared<const Bell>());
  const auto shown = Slab::make().value();
  for (std::uint32_t i = 0; i <= 64; ++i)
    REQUIRE(send_word(owner, Offer{i}, shown->descriptor()) == Sent::yes);
  std::string why;
  CHECK(reader->hear(why));
  CHECK_FALSE(reader->is_over());
  for (std::uint32_t i = 0; i < 64; ++i) CHECK(std::get<Mapped>(next_packet(owner).word).slab == i);
  CHECK(reader->borrow({64, 0, 1}, 1).error().message == "slab 64, which it has not shown");
  CHECK(reader->borrow({63, 0, 1}, 1).error().message == "generation 1 of block 0, where 0 stands");
  CHECK(why.empty());
  CHECK_FALSE(reader->hear(why));
  CHECK(why == "slab 64 is not the next");
  CHECK(std::get<Declined>(next_packet(owner).word).why == why);
}

TEST_CASE("what cannot be given back at once waits, in its order, and rings") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, kind_of_socket, 0, ends.data()) == 0);
  OwnedFile owner(ends[0]);
  const auto bell = std::make_shared<const Bell>();
  const auto reader = std::make_shared<Attachment>(Origin{1, 1}, OwnedFile(ends[1]), bell);
  const auto shown = Slab::make().value();
  REQUIRE(send_word(owner, Offer{0}, shown->descriptor()) == Sent::yes);
  std::string why;
  REQUIRE(reader->hear(why));
  CHECK(std::holds_alternative<Mapped>(next_packet(owner).word));
  CHECK_FALSE(reader->waits());
  std::uint64_t generation = 0;
  const auto give_back = [&] {
    shown->mark(0, ++generation);
    REQUIRE(reader->borrow({0, 0, generation}, 1).ok());  // and let go at once
  };
  while (!reader->waits()) give_back();
  for (int i = 0; i < 100; ++i) give_back();
  bell->hear();
  give_back();
  pollfd rung{bell->descriptor(), POLLIN, 0};
  CHECK(::poll(&rung, 1, 0) == 1);
  std::uint64_t heard = 0;
  std::size_t most = 0;
  const auto hear = [&] {
    for (;;) {
      const Packet packet = receive_packet(owner);
      if (packet.kind == Packet::Kind::none) return;
      REQUIRE(packet.kind == Packet::Kind::word);
      const Back& back = std::get<Back>(packet.word);
      most = std::max(most, back.handles.size());
      for (const wire::Handle& one : back.handles) REQUIRE(one == wire::Handle{0, 0, ++heard});
    }
  };
  hear();
  CHECK(heard < generation);
  CHECK(most == 1);
  CHECK(reader->waits());
  reader->flush();
  CHECK_FALSE(reader->waits());
  hear();
  CHECK(heard == generation);
  CHECK(most == handles_max);
  owner.close();  // nobody needs anything back
  give_back();
  CHECK_FALSE(reader->waits());
  CHECK_FALSE(reader->hear(why));
  CHECK(reader->is_over());
  CHECK(why.empty());
}

TEST_CASE("512 readers are let in, and the next when one has gone") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit before = limit;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 4096));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (limit.rlim_cur < 2048) {
    WARN("too few descriptors: not tested");
    return;
  }
  {
    Folder folder;
    const auto one = machine(options_of(folder, {1, 5}));
    std::deque<OwnedFile> readers;
    const auto in = [&](OwnedFile socket) {  // it is answered, so it was let in
      REQUIRE(send_word(socket, Mapped{0}) == Sent::yes);
      CHECK(std::get<Declined>(next_packet(socket).word).why == "no greeting");
      return socket;
    };
    for (std::size_t i = 0; i + 2 < SharedMemory::connections_max; ++i)
      readers.push_back(in(std::move(connect_to(folder.socket(1)).value())));
    OwnedFile talks = reader_of(folder, {2, 1}), last = reader_of(folder, {3, 1});
    const OwnedFile waits = std::move(connect_to(folder.socket(1)).value());
    REQUIRE(send_word(waits, Mapped{0}) == Sent::yes);
    REQUIRE(send_word(talks, Mapped{0}) == Sent::yes);
    lend(*one, {2, 1}, pattern(small, 1));  // a turn later
    REQUIRE(send_word(last, Mapped{0}) == Sent::yes);
    lend(*one, {3, 1}, pattern(small, 1));  // and another
    CHECK(receive_packet(waits).kind == Packet::Kind::none);
    last.close();
    CHECK(std::get<Declined>(next_packet(waits).word).why == "no greeting");
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}
