#include "runtime/redis/redis_link.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/registry/registration.h"

namespace sluice {

namespace {

constexpr int version_least = 7;

void free_command(char* command) { redisFreeCommand(command); }

Error failed(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<SocketAddress> socket_address(const RedisAddress& address) {
  SocketAddress made;
  if (!address.path.empty()) {
    auto* const where = reinterpret_cast<sockaddr_un*>(&made.storage);
    if (address.path.size() >= sizeof where->sun_path)
      return invalid_argument(address.path + ": a socket's path has at most 107 bytes");
    where->sun_family = AF_UNIX;
    std::ranges::copy(address.path, where->sun_path);
    made.size = sizeof *where;
    return made;
  }
  const auto port = htons(static_cast<std::uint16_t>(address.port));
  if (address.host == "::1") {
    auto* const where = reinterpret_cast<sockaddr_in6*>(&made.storage);
    where->sin6_family = AF_INET6;
    where->sin6_port = port;
    where->sin6_addr = in6addr_loopback;
    made.size = sizeof *where;
    return made;
  }
  auto* const where = reinterpret_cast<sockaddr_in*>(&made.storage);
  where->sin_family = AF_INET;
  where->sin_port = port;
  if (::inet_pton(AF_INET, address.host.c_str(), &where->sin_addr) != 1)
    return invalid_argument(address.host + " is no address");
  made.size = sizeof *where;
  return made;
}

}  // namespace

Result<RedisAddress> read_redis_address(const std::string& text) {
  const Error wrong{ErrorCode::invalid_argument,
                    "'" + text +
                        "' is no address of a registry: unix:///PATH, tcp://127.0.0.1:PORT "
                        "or tcp://[::1]:PORT"};
  if (text.size() > 7 + sizeof sockaddr_un::sun_path - 1 && text.starts_with("unix:///"))
    return Error{
        ErrorCode::invalid_argument,
        "'" + text + "' is no address of a registry: a socket's path has at most 107 bytes"};
  if (text.starts_with("unix:///") && text.size() > 8) return RedisAddress{text.substr(7), "", 0};
  RedisAddress address;
  if (text.starts_with("tcp://127."))
    address.host = text.substr(6, text.rfind(':') - 6);
  else if (text.starts_with("tcp://[::1]:"))
    address.host = "::1";
  else
    return wrong;
  const std::string port = text.substr(text.rfind(':') + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  in_addr ignored{};
  const bool is_host =
      address.host == "::1" || ::inet_pton(AF_INET, address.host.c_str(), &ignored) == 1;
  if (error != std::errc() || end != port.data() + port.size() || address.port < 1 ||
      address.port > 65535 || !is_host)
    return wrong;
  return address;
}

Result<int> connect_redis(const RedisAddress& address) {
  const Result<SocketAddress> where = socket_address(address);
  if (!where.ok()) return where.error();
  const int socket =
      ::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return failed("no socket");
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&where->storage), where->size) == 0 ||
      errno == EINPROGRESS)
    return socket;
  const Error error = failed("it cannot be reached");
  ::close(socket);
  return error;
}

Result<RedisLink> RedisLink::dial(const RedisAddress& address, Deadline until, int stop) {
  if (address.open) {
    Result<RedisStream> stream = address.open();
    if (!stream.ok()) return stream.error();
    return RedisLink(stream->socket, stop, std::move(stream->why));
  }
  const Result<int> socket = connect_redis(address);
  if (!socket.ok()) return socket.error();
  RedisLink link(*socket, stop, {});
  if (const Result<void> ready = link.wait(POLLOUT, until); !ready.ok()) return ready.error();
  socklen_t size = sizeof errno;
  int fate = 0;
  ::getsockopt(*socket, SOL_SOCKET, SO_ERROR, &fate, &size);
  errno = fate;
  if (fate != 0) return failed("it cannot be reached");
  return link;
}

Result<RedisLink> RedisLink::connect(const RedisAddress& address, Deadline until, int stop,
                                     const std::optional<RedisLogin>& login) {
  Result<RedisLink> link = dial(address, until, stop);
  if (!link.ok()) return link.error();
  if (login)
    if (const Result<void> taken = link->log_in(*login, until); !taken.ok()) return taken.error();
  if (const Result<void> fits = link->check_version(until); !fits.ok()) return fits.error();
  return std::move(link).value();
}

RedisLink::RedisLink(RedisLink&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      stop_(other.stop_),
      why_(std::move(other.why_)),
      reader_(std::move(other.reader_)) {}

Error RedisLink::named(Error error) const {
  if (why_) error.message = why_();
  return error;
}

RedisLink::~RedisLink() {
  if (socket_ >= 0) ::close(socket_);
}

/// What the server says to it is never repeated: it could be the password.
Result<void> RedisLink::log_in(const RedisLogin& login, Deadline until) {
  const Result<RedisValue> answer = ask({"AUTH", login.user, login.password}, until);
  if (!answer.ok()) return answer.error();
  if (answer->kind == RedisValue::Kind::text && answer->text == "OK") return {};
  if (answer->text.starts_with("WRONGPASS"))
    return Error{ErrorCode::unavailable, "it does not take user '" + login.user +
                                             "' with the password in " + login.file +
                                             ": write the one there that `ACL SETUSER " +
                                             login.user + " on >PASSWORD` gave this user"};
  return Error{ErrorCode::unavailable,
               "it does not take AUTH with a user and a password, which Redis 7 does"};
}

Result<void> RedisLink::check_version(Deadline until) {
  const Result<RedisValue> hello = ask({"HELLO", "2"}, until);
  if (!hello.ok()) return hello.error();
  std::string version;
  for (std::size_t i = 0; i + 1 < hello->list.size(); i += 2)
    if (hello->list[i].text == "version") version = hello->list[i + 1].text;
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  if (hello->kind == RedisValue::Kind::error && hello->text.starts_with("NOAUTH"))
    return Error{ErrorCode::unavailable,
                 "it asks for a password: add `user: NAME, password_file: FILE` to the cluster "
                 "file's `registry: { address: ADDRESS }`"};
  if (hello->kind == RedisValue::Kind::error &&
      hello->text.find("unknown command") == std::string::npos)
    return Error{ErrorCode::unavailable, "it refuses HELLO: " + printable(hello->text)};
  if (major >= version_least) return {};
  return Error{ErrorCode::unavailable,
               "it is Redis " +
                   (major == 0 ? std::string("5 or older") : printable(version.substr(0, 20))) +
                   ", 7 or later is needed"};
}

Result<void> RedisLink::wait(short what, Deadline until) const {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    std::array<pollfd, 2> events{pollfd{socket_, what, 0}, pollfd{stop_, POLLIN, 0}};
    const int ready = ::poll(events.data(), events.size(),
                             static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return failed("it cannot be waited for");
    if (events[1].revents != 0) return Error{ErrorCode::cancelled, "nobody waits for it any more"};
    if (events[0].revents != 0) return {};
    if (left.count() <= 0) return named({ErrorCode::deadline, "it does not answer"});
  }
}

Result<RedisValue> RedisLink::ask(const std::vector<std::string>& words, Deadline until) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* formatted = nullptr;
  const int size = redisFormatCommandArgv(&formatted, static_cast<int>(texts.size()), texts.data(),
                                          sizes.data());
  if (size < 0) return Error{ErrorCode::exhausted, "there is no memory for a command"};
  const std::unique_ptr<char, void (*)(char*)> owned(formatted, &free_command);
  std::string_view left(formatted, static_cast<std::size_t>(size));
  while (!left.empty()) {
    if (const Result<void> ready = wait(POLLOUT, until); !ready.ok()) return ready.error();
    const ssize_t sent = ::send(socket_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return named(failed("the connection broke"));
  }
  std::array<char, 16384> part{};
  for (;;) {
    Result<std::optional<RedisValue>> answer = reader_.next();
    if (!answer.ok()) return answer.error();
    if (*answer) return std::move(**answer);
    if (const Result<void> ready = wait(POLLIN, until); !ready.ok()) return ready.error();
    const ssize_t got = ::recv(socket_, part.data(), part.size(), 0);
    if (got == 0) return named({ErrorCode::unavailable, "it closed the connection"});
    if (got < 0 && errno != EAGAIN && errno != EINTR) return named(failed("the connection broke"));
    if (got <= 0) continue;
    if (const Result<void> fed = reader_.feed({part.data(), static_cast<std::size_t>(got)});
        !fed.ok())
      return fed.error();
  }
}

}  // namespace sluice
