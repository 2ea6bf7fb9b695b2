// A role host that does not keep to the protocol, in the way that its argument says.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "runtime/hosts/channel.h"
#include "runtime/hosts/host_child.h"
#include "runtime/hosts/host_protocol.h"

using namespace sluice;
using namespace sluice::hosts;

namespace {

/// The next message on the control socket, and the socket that came with it.
int receive() {
  std::array<std::byte, control_max> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  if (::recvmsg(control_socket, &message, 0) <= 0) ::_exit(0);
  int fd = -1;
  if (const cmsghdr* const extra = CMSG_FIRSTHDR(&message))
    std::memcpy(&fd, CMSG_DATA(extra), sizeof fd);
  return fd;
}

void send(const wire::Bytes& bytes) {
  (void)!::send(control_socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void send(Channel& channel, const wire::Bytes& bytes) {
  if (!channel.send(bytes).ok()) ::_exit(1);
}

void reply(Channel& channel, const Reply& message) { send(channel, encode(message).value()); }

/// An answer to the first activation, which has the number 1.
void lie(Channel& channel, const std::string& how) {
  if (how == "reference") reply(channel, Yielded{1, {{"word", {}, 0, 9}}});
  if (how == "field") reply(channel, Yielded{1, {{"word", {}, 7, 0}}});
  if (how == "stranger") reply(channel, Ended{2, {}, ""});
  if (how == "stepped") reply(channel, Stepped{});
  if (how == "another") reply(channel, Yielded{2, {{"word", make_text("x"), 0, 0}}});
  if (how == "warning") reply(channel, Warned{2, "of nothing"});
  if (how == "made again") reply(channel, Made{});
  if (how == "kind") send(channel, wire::Bytes(1, std::byte{100}));
  if (how == "says no") reply(channel, Made{false, Error{ErrorCode::exhausted, "it never ends"}});
  if (how == "steps idle") reply(channel, Stepped{});
  if (how == "steps, no number") reply(channel, Made{});
  if (how == "steps, stranger") reply(channel, Ended{2, {}, ""});
  if (how == "steps, reference") reply(channel, Yielded{1, {{"word", {}, 0, 9}}});
  if (how == "steps, late words") {
    reply(channel, Warned{2, "of what has ended"});
    reply(channel, Yielded{2, {{"word", make_text("of what has ended"), 0, 0}}});
    reply(channel, Yielded{1, {{"word", make_text("said"), 0, 0}}});
    reply(channel, Ended{1, {}, ""});
    reply(channel, Stepped{});
  }
}

/// A pool's report, where a look at it came first, or not.
void show_pool(Channel& channel, const std::string& how) {
  PoolReport report;
  report.name = "kv";
  report.layout = "pages";
  report.pages = 7;
  if (how == "pool late" && !channel.receive().ok()) ::_exit(1);  // the end of a session behind it
  if (how == "pool" || how == "pool late" || how == "pool unasked")
    reply(channel, PoolSeen{report});
  if (how == "pool late") reply(channel, Made{});
  if (how == "no pool") reply(channel, PoolSeen{});
  if (how == "pool, stepped") reply(channel, Stepped{});
}

/// Something of the process itself. Does not return where it stays.
void misbehave(Channel& channel, const std::string& how) {
  if (how == "status") ::_exit(3);
  if (how == "lost") ::_exit(lost_connection);
  if (how == "killed") ::raise(SIGKILL);
  if (how == "nameless signal") ::raise(SIGRTMIN);
  if (how == "hello twice") send(encode(Control(Hello{})));
  if (how == "unasked pong") send(encode(Control(Ping{1})));
  if (how == "cancel") send(encode(Control(Cancel{0, 1})));
  if (how == "stays") ::signal(SIGTERM, SIG_IGN);
  if (how == "closes" || how == "stays") channel = Channel(OwnedFile());
  if (how == "hangs up") {
    ::close(control_socket);
    for (;;) ::pause();
  }
}

/// In its first life it dies of the first activation; the next ones cannot make the role.
std::string of_its_life(const std::string& how, const char* mark) {
  if (how != "made once") return how;
  const int first = ::open(mark, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return first < 0 ? "refuses" : "status";
}

}  // namespace

int main(int, char** argv) {
  const std::string how = of_its_life(argv[1], argv[2]);
  receive();  // hello
  if (how == "mute") receive();
  wire::Bytes hello = encode(Control(Hello{}));
  if (how == "version") hello.back() = std::byte{9};
  if (how == "magic") hello[1] = std::byte{'?'};
  send(hello);
  Channel channel((OwnedFile(receive())));
  if (!channel.receive().ok()) return 1;
  if (how == "made") reply(channel, Stepped{});
  if (how == "dies while it makes") ::_exit(4);
  if (how == "closes while it makes") channel = Channel(OwnedFile());
  if (how != "closes while it makes")
    reply(channel, how == "refuses" ? Made{false, Error{ErrorCode::exhausted, "it has no room"}}
                                    : Made{how.starts_with("steps"), {}});
  if (how == "deaf") {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
  }
  if (how != "closes while it makes" && !channel.receive().ok()) return 1;
  if (how == "control") send(wire::Bytes(3, std::byte{9}));
  misbehave(channel, how);
  lie(channel, how);
  show_pool(channel, how);
  for (;;) receive();
}
