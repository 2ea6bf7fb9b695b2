// Messages between a program and its role hosts: of any size, in any pieces, and each call to the
// system that fails.
#include "runtime/hosts/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <thread>

#include "runtime/hosts/host_protocol.h"
#include "runtime/hosts/spawn.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using namespace sluice::hosts;
using test::FailingCall;

namespace {

struct Ends {
  int raw = -1;  // of the other side
  OwnedFile other;
  std::unique_ptr<Channel> channel;
  Ends() {
    auto sockets = socket_pair(SOCK_STREAM);
    REQUIRE(sockets.ok());
    channel = std::make_unique<Channel>(std::move(sockets->first));
    other = std::move(sockets->second);
    raw = other.get();
  }
  void put(const std::string& bytes) const {
    REQUIRE(::write(raw, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
};

wire::Bytes body(std::size_t size) {
  wire::Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8U));
  return bytes;
}

std::string framed(const wire::Bytes& bytes) {
  std::string text;
  for (unsigned shift = 0; shift < 32; shift += 8) text += static_cast<char>(bytes.size() >> shift);
  for (const std::byte one : bytes) text += static_cast<char>(one);
  return text;
}

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "well"
                     : std::string(to_string(result.error().code)) + ": " + result.error().message;
}

}  // namespace

TEST_CASE("messages of every size come whole, in their order, whatever pieces they come in") {
  const std::vector<std::size_t> sizes{0,    1,    2,     255,   256,    8187,    8188,
                                       8189, 8192, 65535, 65536, 300001, 5000000, 3};
  SECTION("from a channel to a channel") {
    auto sockets = socket_pair(SOCK_STREAM);
    REQUIRE(sockets.ok());
    Channel from(std::move(sockets->first)), to(std::move(sockets->second));
    std::thread sends([&] {
      for (const std::size_t size : sizes) static_cast<void>(from.send(body(size)));
    });
    for (const std::size_t size : sizes) {
      const Result<wire::Bytes> came = to.receive();
      REQUIRE(came.ok());
      CHECK(*came == body(size));
    }
    sends.join();
  }
  SECTION("many at once, and byte by byte") {
    const Ends ends;
    std::string all;
    for (const std::size_t size : {3U, 0U, 500U, 1U}) all += framed(body(size));
    ends.put(all);
    for (const std::size_t size : {3U, 0U, 500U, 1U}) CHECK(*ends.channel->receive() == body(size));
    std::thread writes([&] {
      for (const char byte : all) static_cast<void>(::write(ends.raw, &byte, 1));
    });
    for (const std::size_t size : {3U, 0U, 500U, 1U}) CHECK(*ends.channel->receive() == body(size));
    writes.join();
  }
  SECTION("as bytes: four of length, the lowest first") {
    const Ends ends;
    for (const std::size_t size : {0U, 1U, 70000U}) {
      REQUIRE(ends.channel->send(body(size)).ok());
      std::string got(size + 4, 0);
      for (std::size_t at = 0; at < got.size();) {
        const ssize_t came = ::read(ends.raw, got.data() + at, got.size() - at);
        REQUIRE(came > 0);
        at += static_cast<std::size_t>(came);
      }
      CHECK((got == framed(body(size))));
    }
  }
}

TEST_CASE("a message longer than the limit is refused by its length") {
  const Ends ends;
  ends.put(std::string("\x01\x00\x00\x40", 4));
  CHECK(said(ends.channel->receive()) ==
        "corrupt: a message of 1073741825 bytes; the limit is 1073741824");
  const Ends most;
  most.put(std::string("\x00\x00\x00\x40", 4));
  int asked = 0;
  CHECK(said(most.channel->receive([&] { return ++asked < 2; })) == "cancelled: given up");
}

TEST_CASE("who waits for a message or for room is asked whether to go on") {
  const Ends ends;
  int asked = 0;
  CHECK(said(ends.channel->receive([&] { return ++asked < 3; })) == "cancelled: given up");
  CHECK(asked == 3);
  const wire::Bytes large = body(16 << 20U);
  asked = 0;
  CHECK(said(ends.channel->send(large, [&] { return ++asked < 3; })) == "cancelled: given up");
  CHECK(asked == 3);
  // What has come of a message stays, and the rest is read behind it.
  const Ends other;
  const std::string bytes = framed(body(1000));
  other.put(bytes.substr(0, 600));
  asked = 0;
  CHECK(said(other.channel->receive([&] { return ++asked < 2; })) == "cancelled: given up");
  other.put(bytes.substr(600));
  CHECK(*other.channel->receive() == body(1000));
}

TEST_CASE("a channel whose other side closes says so, amid a message too") {
  for (const std::size_t size : {0U, 2U, 4U, 9U}) {
    Ends ends;
    ends.put(framed(body(6)).substr(0, size));
    ends.other.close();
    CHECK(said(ends.channel->receive()) == "unavailable: the connection is closed");
    CHECK(said(ends.channel->send(body(1))) == "unavailable: the connection is closed");
  }
}

TEST_CASE("calls of a channel that are interrupted are made again, others end it") {
  const auto sent_with = [](const char* function, int error) {
    const Ends ends;
    const FailingCall fails(function, error, 1, 2);
    const std::string end = said(ends.channel->send(body(3)));
    if (end != "well") return end;
    std::string got(7, 0);
    REQUIRE(::read(ends.raw, got.data(), got.size()) == 7);
    return std::string(got == framed(body(3)) ? "whole" : "bent");
  };
  CHECK(sent_with("sendmsg", EINTR) == "whole");
  CHECK(sent_with("sendmsg", EAGAIN) == "whole");
  CHECK(sent_with("sendmsg", ENOBUFS) == "whole");
  CHECK(sent_with("sendmsg", EPIPE) == "unavailable: the connection is closed");
  const auto received_with = [](const char* function, int error, bool waits = false) {
    const Ends ends;
    if (!waits) ends.put(framed(body(3)));
    const FailingCall fails(function, error, 1, 2);
    const Result<wire::Bytes> came = ends.channel->receive();
    return came.ok() ? std::string(*came == body(3) ? "whole" : "bent") : said(came);
  };
  CHECK(received_with("recv", EINTR) == "whole");
  CHECK(received_with("recv", EAGAIN) == "whole");
  CHECK(received_with("recv", ECONNRESET) == "unavailable: the connection is closed");
  CHECK(received_with("poll", ENOMEM, true) == "unavailable: the connection is closed");
  const FailingCall fails("socketpair", EMFILE);
  CHECK(said(socket_pair(SOCK_STREAM)) == "exhausted: no sockets: Too many open files");
}

TEST_CASE("a process that cannot be started says why, and leaves nothing") {
  const auto count = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = count();
  {
    const FailingCall fails("socketpair", EMFILE);
    CHECK(said(spawn({"/bin/true"}, 0, {})) == "exhausted: no sockets: Too many open files");
  }
  CHECK(said(spawn({"/bin/true"}, 0, {999'999})).substr(0, 42) ==
        "invalid_argument: cannot be started: core ");
  CHECK(count() == before);
}
