// Memory that a reader maps: what it may do with it, who gets it, owners that hand over something
// else, and what is left behind. What is promised of every way is in remote_memory_test.cpp.
#include "runtime/shm/mapped_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/file_packets.h"
#include "base/page_memory.h"
#include "mapped_ways.h"
#include "region_reads.h"
#include "runtime/shm/mapped_key.h"
#include "runtime/shm/mapped_owner.h"
#include "runtime/shm/mapped_reader.h"
#include "runtime/shm/packets.h"

using namespace sluice;

namespace {

std::unique_ptr<RemoteMemory> made(const MappedMemoryOptions& options = mapped_options()) {
  auto memory = make_mapped_memory(options);
  INFO((memory.ok() ? std::string() : memory.error().message));
  REQUIRE(memory.ok());
  return std::move(memory).value();
}

shm::MappedKey key_of(RemoteMemory& memory, const Ref<Buffer>& region) {
  return shm::decode_key(memory.key(region).value()).value();
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

/// Of pools' memory.
std::size_t mappings() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  REQUIRE(maps != nullptr);
  std::size_t count = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr)
    if (std::strstr(line, "memfd:sluice-pages") != nullptr) ++count;
  std::fclose(maps);
  return count;
}

/// Waits until something, the end too, can be heard there.
PacketWithFiles heard(const OwnedFile& socket) {
  pollfd one{socket.get(), POLLIN, 0};
  REQUIRE(::poll(&one, 1, 20'000) == 1);
  std::array<std::byte, 64> room;
  return receive_with_files(socket.get(), room, MSG_DONTWAIT);
}

/// What an owner gives who says so.
PacketWithFiles answer_to(const std::string& path, std::span<const std::byte> said,
                          OwnedFile* kept = nullptr) {
  OwnedFile socket = std::move(shm::connect_to(path).value());
  REQUIRE(send_with_files(socket.get(), said, {}, 0) >= 0);
  PacketWithFiles came = heard(socket);
  if (kept != nullptr) *kept = std::move(socket);
  return came;
}

OwnedFile sealed_memory(std::size_t size, int seals) {
  OwnedFile file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(size)) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
  return file;
}

}  // namespace

TEST_CASE("who is handed a region's memory can read it, and never write, shorten or lengthen it") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const shm::MappedKey key = key_of(*memory, region);
  const PacketWithFiles came =
      answer_to(key.socket, encode(shm::MappedHello{key.grant, key.secret}));
  REQUIRE(came.files.size() == 1);
  const int file = came.files.front().get();
  char name[64];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const OwnedFile again(::open(name, O_RDWR | O_CLOEXEC));
  for (const int one : {file, again.get()}) {
    if (one < 0) continue;  // not to be opened so at all
    CHECK(::mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, one, 0) == MAP_FAILED);
    CHECK(::pwrite(one, "x", 1, 0) < 0);
    CHECK(::ftruncate(one, 4096) < 0);
    CHECK(::ftruncate(one, 2 * region_bytes) < 0);
    CHECK(::fallocate(one, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0);
    CHECK(::fcntl(one, F_ADD_SEALS, F_SEAL_WRITE) < 0);
  }
  const Ref<Buffer> read =
      map_page_memory(came.files.front(), region_bytes, PageWriters::owner).value();
  CHECK(::mprotect(read->data(), region_bytes, PROT_READ | PROT_WRITE) != 0);
  CHECK(is_right(read, {0, region_bytes}, {}));
  region->data()[5] = std::byte{77};  // its owner goes on writing
  CHECK(read->data()[5] == std::byte{77});
}

TEST_CASE("a wrong secret, a number that was not given and nonsense are given nothing") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const shm::MappedKey key = key_of(*memory, region);
  const std::vector<std::byte> right = encode(shm::MappedHello{key.grant, key.secret});
  for (std::size_t at = 0; at < right.size(); ++at) {
    std::vector<std::byte> wrong = right;
    wrong[at] ^= std::byte{1};
    const PacketWithFiles came = answer_to(key.socket, wrong);
    CHECK(came.bytes <= 0);
    CHECK(came.files.empty());
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, right.size() - 1})
    CHECK(answer_to(key.socket, std::span(right).first(size)).bytes <= 0);
  std::vector<std::byte> longer = right;
  longer.push_back({});
  CHECK(answer_to(key.socket, longer).bytes <= 0);
  // Who has been given it has nothing more to say.
  OwnedFile socket;
  CHECK(answer_to(key.socket, right, &socket).files.size() == 1);
  REQUIRE(send_with_files(socket.get(), right, {}, 0) >= 0);
  CHECK(heard(socket).bytes <= 0);
  // By a reader's own way.
  shm::MappedKey wrong = key;
  wrong.secret[31] ^= std::byte{1};
  const auto other = made();
  Ended ended;
  auto reached = other->reach(encode(wrong), ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {0, 64}, {64, 64});
  CHECK_FALSE(ended.wait_for(1));
}

TEST_CASE("an owner that hands over something else than it says is read nowhere") {
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;
  enum class Lie : std::uint8_t { none, smaller, larger, unsealed, writable, file, two, no, words };
  const auto lie = GENERATE(Lie::none, Lie::smaller, Lie::larger, Lie::unsealed, Lie::writable,
                            Lie::file, Lie::two, Lie::no, Lie::words);
  INFO(static_cast<int>(lie));
  const auto reader = made();
  const std::size_t descriptors = open_descriptors(), mapped = mappings();
  {
    const std::string path = mapped_options().socket;
    const OwnedFile listener = std::move(shm::listen_at(path).value());
    Ended ended;
    auto reached = reader->reach(encode(shm::MappedKey{1, region_bytes, {}, path}), ended);
    REQUIRE(reached.ok());
    (*reached)->read(1, {0, 65536}, {65536, 64});
    pollfd one{listener.get(), POLLIN, 0};
    REQUIRE(::poll(&one, 1, 20'000) == 1);
    const OwnedFile socket = *shm::accept_from(listener);
    CHECK(heard(socket).bytes == shm::MappedHello::bytes);
    const std::size_t size = lie == Lie::smaller  ? region_bytes - 4096
                             : lie == Lie::larger ? region_bytes + 1
                                                  : region_bytes;
    const OwnedFile given =
        lie == Lie::file ? OwnedFile(::open("/dev/null", O_RDONLY | O_CLOEXEC))
                         : sealed_memory(size, lie == Lie::unsealed   ? F_SEAL_GROW
                                               : lie == Lie::writable ? seals & ~F_SEAL_FUTURE_WRITE
                                                                      : seals);
    const int files[] = {given.get(), given.get()};
    const std::size_t count = lie == Lie::two ? 2 : lie == Lie::no ? 0 : 1;
    const std::vector<std::byte> words =
        lie == Lie::words ? std::vector<std::byte>(8, std::byte{7}) : shm::mapped_welcome();
    REQUIRE(send_with_files(socket.get(), words, std::span(files, count), 0) >= 0);
    const Ref<Buffer> bytes = ended.wait_for(1);
    CHECK(bool(bytes) == (lie == Lie::none));
    (*reached)->read(2, {0, 64}, {64, 64});
    CHECK(bool(ended.wait_for(2)) == (lie == Lie::none));
  }
  CHECK(comes_true([&] { return open_descriptors() == descriptors && mappings() == mapped; }));
}

TEST_CASE("an owner that says nothing ends its readers' reads in time, and holds up no others") {
  const std::string path = mapped_options().socket;
  const OwnedFile listener = std::move(shm::listen_at(path).value());
  MappedMemoryOptions options = mapped_options();
  options.handshake_most = std::chrono::milliseconds(300);
  const auto reader = made(options), owner = made();
  const Ref<Buffer> region = filled(*owner);
  Ended silent, other;
  auto reached = reader->reach(encode(shm::MappedKey{1, region_bytes, {}, path}), silent);
  REQUIRE(reached.ok());
  for (std::uint64_t number = 1; number < 10; ++number) (*reached)->read(number, {0, 64}, {64, 64});
  auto there = reader->reach(owner->key(region).value(), other);
  REQUIRE(there.ok());
  (*there)->read(1, {0, 64}, {64, 64});
  CHECK(is_right(other.wait_for(1), {0, 64}, {64, 64}));
  CHECK(silent.has_each_ended_once(1, 10));
  CHECK_FALSE(silent.wait_for(9));
}

TEST_CASE("few bytes are read by whoever asks for them, many by other threads, each once") {
  const auto memory = made(), other = made();
  const Ref<Buffer> region = filled(*memory);
  Ended ended;
  auto reached = other->reach(memory->key(region).value(), ended);
  REQUIRE(reached.ok());
  CHECK((*reached)->is_near());
  (*reached)->read(1, {0, 64}, {64, 64});
  REQUIRE(ended.wait_for(1));  // it is mapped now
  (*reached)->read_all({{2, {0, 100}, {200, 8}, {}}, {3, {region_bytes, 1}, {0, 64}, {}}});
  REQUIRE(ended.ended() == 3);  // in the call
  CHECK(is_right(ended.wait_for(2), {0, 100}, {200, 8}));
  CHECK_FALSE(ended.wait_for(3));
  std::vector<RemoteRegion::Read> many;
  constexpr std::size_t page = 65'536;
  for (std::uint64_t number = 4; number < 28; ++number)
    many.push_back({number, {number * page, page}, {number, 64}, {}});
  REQUIRE(many.size() * page > CopyThreads::here_most);
  (*reached)->read_all(std::move(many));
  for (std::uint64_t number = 4; number < 28; ++number)
    CHECK(is_right(ended.wait_for(number), {number * page, page}, {number, 64}));
  CHECK(ended.has_each_ended_once(1, 28));
}

TEST_CASE("a region that its owner has let go of is read no more, and its memory goes") {
  const std::size_t mapped = mappings();
  const auto memory = made(), other = made();
  Ref<Buffer> region = filled(*memory);
  Ended ended;
  auto reached = other->reach(memory->key(region).value(), ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {0, 64}, {64, 64});
  CHECK(ended.wait_for(1));
  CHECK(mappings() == mapped + 2);
  region = {};
  CHECK(comes_true([&] { return mappings() == mapped; }));  // though nobody asks the reader
  (*reached)->read(2, {0, 64}, {64, 64});
  CHECK_FALSE(ended.wait_for(2));
}

TEST_CASE("the memory of an owner that was killed goes, and the socket that it leaves is cleared") {
  const std::size_t descriptors = open_descriptors(), mapped = mappings();
  {
    const auto reader = made();
    Ended ended;
    std::unique_ptr<RemoteRegion> region;
    std::string path;
    {
      Child owner("[.mapped_owner]");
      const std::vector<std::byte> key = read_all(owner.in());
      path = shm::decode_key(key)->socket;
      region = std::move(reader->reach(key, ended)).value();
      region->read(1, {0, 64}, {64, 64});
      CHECK(ended.wait_for(1));
      CHECK(mappings() == mapped + 1);
    }
    CHECK(comes_true([&] { return mappings() == mapped; }));
    CHECK(std::filesystem::exists(path));
    MappedMemoryOptions next = mapped_options();
    next.socket = path;
    const auto memory = made(next);
    const Ref<Buffer> again = filled(*memory);
    auto reached = reader->reach(memory->key(again).value(), ended);
    REQUIRE(reached.ok());
    (*reached)->read(2, {0, 64}, {64, 64});
    CHECK(is_right(ended.wait_for(2), {0, 64}, {64, 64}));
    // While it is served it is nobody else's.
    CHECK_FALSE(make_mapped_memory(next).ok());
  }
  CHECK(comes_true([&] { return open_descriptors() == descriptors && mappings() == mapped; }));
}

TEST_CASE("strangers at the socket of a region are bounded, and keep nobody out") {
  MappedMemoryOptions options = mapped_options();
  options.handshake_most = std::chrono::seconds(2);
  auto owner = shm::MappedOwner::make(options);
  REQUIRE(owner.ok());
  const auto region = std::make_shared<shm::MappedRegion>(
      std::move(PageMemory::make(region_bytes, PageWriters::owner)).value());
  const shm::MappedKey key = (*owner)->grant(region);
  std::vector<OwnedFile> strangers;
  while (strangers.size() < 3 * shm::MappedOwner::strangers_most) {
    Result<OwnedFile> one = shm::connect_to(options.socket);
    if (one.ok())
      strangers.push_back(std::move(*one));
    else
      ::poll(nullptr, 0, 1);  // as many wait to be taken as may
    CHECK((*owner)->connections() <= shm::MappedOwner::strangers_most + 1);
  }
  const auto reader = made();
  Ended ended;
  auto reached = reader->reach(encode(key), ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {0, 64}, {64, 64});
  CHECK(ended.wait_for(1));
  for (const OwnedFile& one : strangers) CHECK(heard(one).bytes <= 0);
  CHECK(comes_true([&] { return (*owner)->connections() <= 1; }));
  (*reached)->read(2, {0, 64}, {64, 64});
  CHECK(ended.wait_for(2));
}

TEST_CASE("another user who comes to the socket of a region is given nothing") {
  if (::geteuid() != 0) return;  // nobody else can be made to come
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const shm::MappedKey key = key_of(*memory, region);
  const std::string folder = std::filesystem::path(key.socket).parent_path().string();
  REQUIRE(::chmod(folder.c_str(), 0755) == 0);  // the folder would keep them out already
  REQUIRE(::chmod(key.socket.c_str(), 0666) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, key.socket.data(), key.socket.size());
    const OwnedFile socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      ::_exit(3);
    static_cast<void>(
        send_with_files(socket.get(), encode(shm::MappedHello{key.grant, key.secret}), {}, 0));
    std::array<std::byte, 64> room;
    const PacketWithFiles came = receive_with_files(socket.get(), room, 0);
    ::_exit(came.bytes <= 0 && came.files.empty() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
}

TEST_CASE("a key of mapped memory has a secret for each reader, and one of other bytes is none") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const std::vector<std::byte> key = memory->key(region).value();
  CHECK(key != memory->key(region).value());
  const std::size_t path = key_of(*memory, region).socket.size();
  for (std::size_t size = 0; size + path <= key.size(); ++size)
    CHECK_FALSE(shm::decode_key(std::span(key).first(size)).has_value());
  std::vector<std::byte> wrong = key;
  wrong.push_back({});
  CHECK_FALSE(shm::decode_key(wrong).has_value());  // a path with a zero in it
  wrong = key;
  wrong[key.size() - path] = std::byte{'.'};  // not from the root on
  CHECK_FALSE(shm::decode_key(wrong).has_value());
  wrong = key;
  wrong.resize(key.size() - path + shm::MappedKey::socket_most + 1, std::byte{'x'});
  CHECK_FALSE(shm::decode_key(wrong).has_value());
}
