// Each call to the system that shared memory makes fails: what is said, and that nothing is left.
#include <sys/socket.h>

#include <array>
#include <atomic>

#include "runtime/shm/mapped_memory.h"
#include "runtime/shm/packets.h"
#include "runtime/shm/slab.h"
#include "tests/shm/world.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using namespace sluice::testing;
using namespace sluice::shm;
using test::FailingCall;

namespace {

constexpr std::size_t size = std::size_t{64} << 10U;

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "well"
                     : std::string(to_string(result.error().code)) + ": " + result.error().message;
}

struct Ends {
  OwnedFile one, two;
  Ends() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) ==
            0);
    one = OwnedFile(ends[0]);
    two = OwnedFile(ends[1]);
  }
};

}  // namespace

TEST_CASE("a slab that cannot be made says why, and leaves nothing") {
  const std::size_t descriptors = open_descriptors(), slabs = mapped_slabs();
  const auto made_with = [](const char* function, int at) {
    const FailingCall fails(function, ENOMEM, at);
    return said(Slab::make());
  };
  const std::string none = ": Cannot allocate memory";
  CHECK(made_with("memfd_create", 1) == "unavailable: no shared memory can be made" + none);
  CHECK(made_with("ftruncate", 1) == "unavailable: shared memory has no room" + none);
  CHECK(made_with("fallocate", 1) == "unavailable: shared memory has no room" + none);
  CHECK(made_with("mmap", 1) == "unavailable: shared memory cannot be mapped" + none);
  CHECK(made_with("fcntl", 1) == "unavailable: shared memory cannot be sealed" + none);
  CHECK(made_with("fcntl", 2) == "well");  // a kernel before 5.1
  CHECK(made_with("fcntl", 3) == "unavailable: shared memory cannot be sealed" + none);
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_slabs() == slabs);
  Folder folder;
  {
    const FailingCall fails("fallocate", ENOSPC, 2);
    SharedMemoryOptions two = options_of(folder, {1, 5});
    two.bytes_max = 2 * BlockPool::slab_bytes;
    CHECK(said(SharedMemory::make(std::move(two))) ==
          "unavailable: shared memory has no room: No space left on device");
  }
  {
    const FailingCall fails("bind", EACCES);
    CHECK(said(SharedMemory::make(options_of(folder, {1, 5}))) ==
          "unavailable: socket " + folder.socket(1) + " cannot be bound: Permission denied");
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_slabs() == slabs);
}

TEST_CASE("a slab that cannot be mapped is refused") {
  const auto slab = Slab::make().value();
  const OwnedFile file(::dup(slab->descriptor()));
  const auto mapped_with = [&](const char* function) {
    const FailingCall fails(function, EPERM);
    return said(SlabView::map(file));
  };
  CHECK(mapped_with("none") == "well");
  CHECK(mapped_with("fcntl") == "corrupt: the descriptor is not of memory that can be sealed");
  CHECK(mapped_with("fstat") == "corrupt: the memory has another size than a slab");
  CHECK(mapped_with("mmap") == "unavailable: the memory cannot be mapped: Operation not permitted");
}

TEST_CASE("a block that gets no memory is free again, and the value goes in the message") {
  const auto slab = Slab::make().value();
  {
    const FailingCall fails("fallocate", ENOSPC);
    CHECK_FALSE(slab->fill(3, BlockPool::unit_bytes));
    CHECK(slab->fill(3, BlockPool::unit_bytes));  // it was not taken for filled
    CHECK(slab->fill(3, BlockPool::unit_bytes));
    CHECK(fails.calls() == 2);  // once each
    CHECK(slab->fill(3, BlockPool::unit_bytes + 1));
    CHECK(slab->fill(4, 1));
    CHECK(slab->fill(2, 1));
    CHECK(slab->fill(5, 1));
    CHECK(fails.calls() == 5);
  }
  Folder folder;
  const auto one = machine(options_of(folder, {1, 5}));
  const auto two = machine(options_of(folder, {2, 7}));
  two->meet({1, 5});
  const wire::Handle first = lend(*one, {2, 7}, pattern(size, 1));
  one->take_back({2, 7}, first);
  const auto is_all_free = [&] {
    const BlockPool::Totals totals = one->totals();
    return totals.free == totals.capacity;
  };
  REQUIRE(is_all_free());
  const FailingCall fails("fallocate", ENOSPC, 1, 2);
  CHECK_FALSE(one->make(2 * size));
  CHECK(is_all_free());
  CHECK_FALSE(one->lend({2, 7}, pattern(2 * size, 1)));
  CHECK(one->counts(2).why == "the 64 MiB of shared memory have no free block of their size");
  CHECK(is_all_free());
  CHECK(one->make(2 * size));
}

TEST_CASE("a socket of shared memory that cannot be made or reached says why") {
  Folder folder;
  const std::string path = folder.socket(1), socket = "unavailable: socket " + path;
  const std::size_t descriptors = open_descriptors();
  const auto listened = [&](const char* function) {
    const FailingCall fails(function, EACCES);
    return said(listen_at(path));
  };
  const std::string denied = ": Permission denied";
  CHECK(listened("socket") == socket + " cannot be made" + denied);  // at a path where nothing is
  CHECK(listened("bind") == socket + " cannot be bound" + denied);
  CHECK(listened("chmod") == socket + " cannot listen" + denied);
  CHECK(listened("listen") == socket + " cannot listen" + denied);
  CHECK(said(connect_to(folder.socket(7))) == "unavailable: socket " + folder.socket(7) +
                                                  " cannot be reached: No such file or directory");
  // At what was left there.
  CHECK(listened("connect") == socket + " cannot be asked who serves it" + denied);
  {
    const FailingCall fails("socket", EACCES, 2);
    CHECK(said(listen_at(path)) == socket + " cannot be asked who serves it" + denied);
  }
  const OwnedFile listener = std::move(listen_at(path).value());
  CHECK(said(listen_at(path)) ==
        socket + " is in use by a process that runs: end it, or name another address");
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  const auto connected = [&](const char* function) {
    const FailingCall fails(function, EACCES);
    return said(connect_to(path));
  };
  CHECK(connected("socket") == socket + " cannot be made" + denied);
  CHECK(connected("connect") == socket + " cannot be reached" + denied);
  CHECK(connected("getsockopt") == socket + " is another user's");
  CHECK(open_descriptors() == descriptors + 1);
  CHECK(accept_from(listener).has_value());  // the one that went away
  CHECK_FALSE(accept_from(listener).has_value());
  for (const char* function : {"accept4", "getsockopt"}) {
    const OwnedFile reader = std::move(connect_to(path).value());
    {
      const FailingCall fails(function, EACCES);
      CHECK_FALSE(accept_from(listener).has_value());
    }
    CHECK(accept_from(listener).has_value() == (function == std::string("accept4")));
  }
  CHECK(open_descriptors() == descriptors + 1);
}

TEST_CASE("a socket's name has at most 107 bytes, and 65 wait at it") {
  Folder folder;
  const std::string most = folder.socket(1) + std::string(107 - folder.socket(1).size(), 's');
  const std::string more = most + 's';
  const std::string too_long = "unavailable: the name of socket " + more + " is too long";
  CHECK(said(listen_at(more)) == too_long);
  CHECK(said(connect_to(more)) == too_long);
  const OwnedFile listener = std::move(listen_at(most).value());
  std::vector<OwnedFile> readers;
  for (int i = 0; i < 65; ++i) {
    Result<OwnedFile> reader = connect_to(most);
    REQUIRE(reader.ok());
    readers.push_back(std::move(*reader));
  }
  CHECK(said(connect_to(most)) ==
        "unavailable: socket " + most + " cannot be reached: Resource temporarily unavailable");
}

TEST_CASE("a packet that could not leave goes later or never, as the system says") {
  const Ends ends;
  const wire::Bytes word = write_word(Offer{1});
  const auto sent_with = [&](int error) {
    const FailingCall fails("sendmsg", error);
    return send_packet(ends.one, word);
  };
  CHECK(sent_with(EINTR) == Sent::yes);
  CHECK(sent_with(EAGAIN) == Sent::later);
  CHECK(sent_with(ENOBUFS) == Sent::later);
  CHECK(sent_with(ETOOMANYREFS) == Sent::later);
  CHECK(sent_with(EPIPE) == Sent::never);
  CHECK(sent_with(ENOMEM) == Sent::never);
  const auto received_with = [&](int error) {
    const FailingCall fails("recvmsg", error);
    return receive_packet(ends.two).kind;
  };
  CHECK(received_with(EAGAIN) == Packet::Kind::none);
  CHECK(received_with(ECONNRESET) == Packet::Kind::ended);
  CHECK(received_with(EINTR) == Packet::Kind::word);  // the first that left
  CHECK(received_with(EINTR) == Packet::Kind::none);
}

TEST_CASE("a reader that could not be let in is let in later") {
  Folder folder;
  const auto owner = machine(options_of(folder, {1, 5}));
  const FailingCall fails("accept4", EMFILE);
  const OwnedFile reader = std::move(connect_to(folder.socket(1)).value());
  REQUIRE(send_word(reader, Greeting{{3, 1}, {1, 5}}) == Sent::yes);
  Packet packet;
  REQUIRE(until([&] {
    packet = receive_packet(reader);
    return packet.kind != Packet::Kind::none;
  }));
  CHECK(packet.kind == Packet::Kind::word);
  CHECK(fails.calls() >= 2);
}

TEST_CASE("a machine whose socket cannot be reached yet is tried again") {
  Folder folder;
  const auto two = machine(options_of(folder, {2, 7}));
  two->meet({1, 5});
  two->meet({9, 5});  // of another computer
  const auto one = machine(options_of(folder, {1, 5}));
  const wire::Handle handle = lend(*one, {2, 7}, pattern(size, 4));
  CHECK(equal(two->borrow({1, 5}, handle, size).value(), pattern(size, 4)));
}

TEST_CASE("mapped memory that cannot be had says why, and leaves nothing") {
  const std::size_t descriptors = open_descriptors(), mapped = mapped_slabs();
  Folder folder;
  const auto made_with = [&](const char* function, int at, int error = ENOMEM) {
    MappedMemoryOptions options;
    options.socket = folder.socket(1);
    const FailingCall fails(function, error, at);
    return said(make_mapped_memory(options));
  };
  const std::string none = ": Cannot allocate memory", socket = "unavailable: socket ";
  CHECK(made_with("memfd_create", 1) ==
        "unavailable: no memory for pages of several processes" + none);
  CHECK(made_with("mmap", 1) == "unavailable: 1 bytes of pages cannot be mapped" + none);
  // A kernel before 5.1 too.
  CHECK(made_with("fcntl", 1, EINVAL) ==
        "unavailable: the memory of pages cannot be sealed: Invalid argument");
  CHECK(made_with("socket", 1) == socket + folder.socket(1) + " cannot be made" + none);
  CHECK(made_with("bind", 1) == socket + folder.socket(1) + " cannot be bound" + none);
  CHECK(made_with("listen", 1) == socket + folder.socket(1) + " cannot listen" + none);
  CHECK(made_with("listen", 2) == "well");
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_slabs() == mapped);
}

TEST_CASE("a call that fails as mapped memory is handed over ends that reader's reads") {
  struct Heard final : RemoteRegion::Listener {
    void read_ended(std::uint64_t, Ref<Buffer> bytes, std::optional<std::uint32_t>) override {
      is_whole = bool(bytes);
      ended = true;
    }
    std::atomic<bool> ended{false}, is_whole{false};
  };
  const std::size_t descriptors = open_descriptors(), mapped = mapped_slabs();
  // By two of their own each time: no end of an earlier connection is counted among the calls.
  const auto is_read_with = [&](const char* function, int error, int at) {
    Folder folder;
    MappedMemoryOptions one, two;
    one.socket = folder.socket(1);
    two.socket = folder.socket(2);
    const auto owner = std::move(make_mapped_memory(one)).value();
    const auto reader = std::move(make_mapped_memory(two)).value();
    const Ref<Buffer> region = owner->make(size).value();
    const std::vector<std::byte> key = owner->key(region).value();
    Heard heard;
    const FailingCall fails(function, error, at);
    const auto reached = std::move(reader->reach(key, heard)).value();
    reached->read(1, {0, 64}, {64, 64});
    REQUIRE(until([&] { return heard.ended.load(); }));
    return heard.is_whole.load();
  };
  // The first of each is one side's, the second the other's.
  for (const int at : {1, 2}) {
    INFO(at);
    CHECK_FALSE(is_read_with("getsockopt", EACCES, at));
    CHECK_FALSE(is_read_with("sendmsg", ENOBUFS, at));
    CHECK_FALSE(is_read_with("recvmsg", EIO, at));
  }
  CHECK_FALSE(is_read_with("connect", ECONNREFUSED, 1));
  // Who has no descriptor free lets readers in later.
  CHECK(is_read_with("accept4", EMFILE, 1));
  CHECK(is_read_with("accept4", EMFILE, 9));
  CHECK(open_descriptors() == descriptors);
  CHECK(mapped_slabs() == mapped);
}
