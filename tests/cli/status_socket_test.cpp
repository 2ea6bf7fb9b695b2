// The socket on which a machine says how it stands: what readers get, and what either side says
// when a call to the system fails.
#include "cli/status_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/scratch_folder.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using cli::StatusReader;
using cli::StatusSocket;
using test::FailingCall;
using namespace std::chrono_literals;

namespace {

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "well"
                     : std::string(to_string(result.error().code)) + ": " + result.error().message;
}

StatusSocket listening(const std::string& path, const std::string& text) {
  Result<StatusSocket> made = StatusSocket::listen(path, [text] { return text; });
  REQUIRE(made.ok());
  return std::move(made).value();
}

std::string read_from(const std::string& path) {
  const Result<StatusReader> reader = StatusReader::connect(path);
  if (!reader.ok()) return said(reader);
  const Result<std::string> text = reader->read(20s);
  return text.ok() ? *text : said(text);
}

}  // namespace

TEST_CASE("each reader of a status gets all of it, and nobody once the socket has gone") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/s", most(std::size_t{4} << 20U, 'x');
  const std::size_t before = descriptors();
  {
    StatusSocket first = listening(path, "so far so good");
    const StatusSocket moved(std::move(first));
    struct stat state {};
    REQUIRE(::stat(path.c_str(), &state) == 0);
    CHECK((state.st_mode & 0777U) == 0600);
    CHECK(read_from(path) == "so far so good");
    CHECK(read_from(path) == "so far so good");
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(read_from(path) == "not_found: " + path + ": nobody listens");
  {
    const StatusSocket again = listening(path, "");
    CHECK(read_from(path).empty());
  }
  {
    const StatusSocket large = listening(path, most);
    CHECK((read_from(path) == most));
  }
  {
    const StatusSocket larger = listening(path, most + 'x');
    CHECK(read_from(path) == "corrupt: it says more than 4 MiB of itself");
  }
  CHECK(descriptors() == before);
}

TEST_CASE("a status socket's path has at most 107 bytes") {
  const ScratchFolder folder;
  const std::string most = folder.path() + "/" + std::string(106 - folder.path().size(), 's');
  {
    const StatusSocket longest = listening(most, "here");
    CHECK(read_from(most) == "here");
  }
  CHECK(said(StatusSocket::listen(most + 's', [] { return std::string(); })) ==
        "unavailable: " + most +
            "s: a socket's path has at most 107 bytes; set XDG_RUNTIME_DIR to a shorter folder");
  CHECK(read_from(most + 's') == "not_found: " + most + "s: nobody can listen at so long a path");
}

TEST_CASE("a status socket that cannot be made or reached says why, and leaves nothing") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/s";
  const std::size_t before = descriptors();
  const auto made_with = [&](const char* function) {
    const FailingCall fails(function, EACCES);
    return said(StatusSocket::listen(path, [] { return std::string(); }));
  };
  for (const char* function : {"socket", "bind", "chmod", "listen"})
    CHECK(made_with(function) == "unavailable: " + path + ": Permission denied");
  CHECK(descriptors() == before);
  const StatusSocket socket = listening(path, "here");
  const std::size_t with_socket = descriptors();
  const auto reached_with = [&](const char* function, int error) {
    const FailingCall fails(function, error);
    return said(StatusReader::connect(path));
  };
  CHECK(reached_with("socket", EMFILE) == "unavailable: " + path + ": Too many open files");
  CHECK(reached_with("connect", ENOENT) == "not_found: " + path + ": nobody listens");
  CHECK(reached_with("connect", ECONNREFUSED) == "not_found: " + path + ": nobody listens");
  CHECK(reached_with("connect", EAGAIN) ==
        "unavailable: it stands still: as many readers wait for it as can");
  CHECK(reached_with("connect", EACCES) == "unavailable: " + path + ": Permission denied");
  CHECK(descriptors() == with_socket);
}

TEST_CASE("a reader whose owner is not known is not answered, and an owner not read") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/s";
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 4) == 0);
  const std::size_t before = descriptors();
  {
    const FailingCall fails("getsockopt", ENOTSOCK);
    CHECK(said(StatusReader::connect(path)) == "unavailable: " + path +
                                                   ": it belongs to user unknown, this is user " +
                                                   std::to_string(::getuid()));
  }
  {
    const Result<StatusReader> reader = StatusReader::connect(path);
    REQUIRE(reader.ok());
    CHECK(said(reader->read(0ms)) == "deadline: it does not answer within 0 ms");
    CHECK(said(reader->read(2ms)) == "deadline: it does not answer within 2 ms");
  }
  CHECK(descriptors() == before);
  ::close(listener);
  const StatusSocket socket = listening(path, "here");
  {
    const FailingCall fails("getsockopt", ENOTSOCK);
    const int reader = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::connect(reader, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    char one = 0;
    CHECK(::read(reader, &one, 1) == 0);
    ::close(reader);
  }
  CHECK(read_from(path) == "here");
}

TEST_CASE("calls of a status that are interrupted are made again, and others end the reader") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/s", large(std::size_t{1} << 20U, 'x');
  const StatusSocket socket = listening(path, large);
  const auto with = [&](const char* function, int error, int at = 1) {
    const FailingCall fails(function, error, at);
    const std::string text = read_from(path);
    return text == large ? "all" : text.size() > 100 ? "a part" : text;
  };
  CHECK(with("recv", EINTR) == "all");
  CHECK(with("recv", EAGAIN, 3) == "all");
  CHECK(with("recv", ECONNRESET) == "unavailable: it died");
  CHECK(with("recv", ECONNRESET, 3) == "unavailable: it died");
  CHECK(with("send", EINTR) == "all");
  CHECK(with("send", EAGAIN, 2) == "all");
  CHECK(with("send", EPIPE).empty());
  CHECK(with("send", EPIPE, 2) == "a part");
  for (int at = 1; at <= 6; ++at) CHECK(with("poll", EINTR, at) == "all");
  CHECK(with("accept4", EMFILE) == "all");  // asked again soon
}
