#include "base/file_packets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

using namespace sluice;

namespace {

std::pair<OwnedFile, OwnedFile> sockets() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {OwnedFile(ends[0]), OwnedFile(ends[1])};
}

bool is_open(int file) { return ::fcntl(file, F_GETFD) >= 0; }

ino_t node_of(int file) {
  struct stat found {};
  REQUIRE(::fstat(file, &found) == 0);
  return found.st_ino;
}

constexpr std::array<std::byte, 3> three{std::byte{1}, std::byte{2}, std::byte{3}};

}  // namespace

TEST_CASE("an owned file is closed once: with its last owner, when told, never when released") {
  auto [one, two] = sockets();
  const int first = one.get();
  const int second = two.get();
  OwnedFile moved = std::move(one);
  CHECK(!one);
  CHECK(moved.get() == first);
  moved = std::move(two);
  CHECK(!is_open(first));
  CHECK(is_open(second));
  const int released = moved.release();
  CHECK(!moved);
  CHECK(is_open(released));
  moved = OwnedFile(released);
  moved.close();
  moved.close();
  CHECK(!is_open(released));
}

TEST_CASE("files arrive beside a packet's bytes, in their order, closed in what is started") {
  const auto [one, two] = sockets();
  const std::array<int, 2> files{one.get(), two.get()};
  REQUIRE(send_with_files(one.get(), three, files, 0) == 3);
  std::array<std::byte, 8> room{};
  const PacketWithFiles came = receive_with_files(two.get(), room, 0);
  CHECK(came.bytes == 3);
  CHECK(room[2] == std::byte{3});
  CHECK(!came.is_cut);
  REQUIRE(came.files.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(node_of(came.files[i].get()) == node_of(files[i]));
    CHECK((::fcntl(came.files[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
}

TEST_CASE("a packet without room for its bytes, or with more files than may be, is cut") {
  const auto [one, two] = sockets();
  std::array<std::byte, 2> room{};
  REQUIRE(send_with_files(one.get(), three, {}, 0) == 3);
  CHECK(receive_with_files(two.get(), room, 0).is_cut);

  // By hand: `send_with_files` takes no more than may be.
  std::array<int, packet_files_max + 1> files{};
  files.fill(one.get());
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof files)> beside{};
  iovec piece{room.data(), room.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(part), files.data(), sizeof files);
  REQUIRE(::sendmsg(one.get(), &message, 0) == 2);
  const PacketWithFiles came = receive_with_files(two.get(), room, 0);
  CHECK(came.is_cut);
  CHECK(came.files.size() == packet_files_max);
}

TEST_CASE("nothing there, and nobody there, are told apart by errno, and raise no signal") {
  auto [one, two] = sockets();
  std::array<std::byte, 2> room{};
  CHECK(receive_with_files(one.get(), room, MSG_DONTWAIT).bytes == -1);
  CHECK(errno == EAGAIN);
  two.close();
  CHECK(send_with_files(one.get(), three, {}, 0) == -1);
  CHECK(errno == EPIPE);
  CHECK(receive_with_files(one.get(), room, 0).bytes == 0);
}
