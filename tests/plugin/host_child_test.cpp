// The inside of a role host, in this process: what it makes of each word that it is told, line by
// line, beside what it made of it before; and how it ends when it is told nonsense.
#include "runtime/hosts/host_child.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "base/file_packets.h"
#include "host_deeds.h"
#include "runtime/hosts/channel.h"
#include "runtime/hosts/host_protocol.h"
#include "tests/outcomes.h"

using namespace sluice;
using namespace sluice::hosts;
using namespace sluice::deeds;

namespace {

std::string words(const std::optional<Error>& error) {
  return error ? std::string(to_string(error->code)) + ": " + error->message : "well";
}

std::string words(const Reply& reply) {
  if (const Made* made = std::get_if<Made>(&reply))
    return std::string("made ") + (made->stepped ? "stepped, " : "") + words(made->error);
  if (const Yielded* yielded = std::get_if<Yielded>(&reply)) {
    std::string text = std::to_string(yielded->id) + " yields";
    for (const HostedValue& one : yielded->values)
      text += ' ' + one.field + '=' +
              (one.value ? one.value->text
                         : "input " + std::to_string(one.input_field) + '.' +
                               std::to_string(one.input_index));
    return text;
  }
  if (const Warned* warned = std::get_if<Warned>(&reply))
    return std::to_string(warned->id) + " warns: " + warned->text;
  if (const Ended* ended = std::get_if<Ended>(&reply))
    return std::to_string(ended->id) + " ends " + words(ended->error) +
           (ended->undeclared.empty() ? "" : ", read " + ended->undeclared);
  if (const PoolSeen* seen = std::get_if<PoolSeen>(&reply))
    return seen->report ? "a pool of " + std::to_string(seen->report->pages) + " pages, age " +
                              std::to_string(seen->report->age_ms)
                        : "no pool";
  return std::get<Stepped>(reply).busy ? "stepped, busy" : "stepped, idle";
}

HostedWork work(std::uint64_t id, const std::string& deed, bool admit = false) {
  HostedWork made;
  made.id = id;
  made.admit = admit;
  made.node = "node";
  made.interface = "go";
  made.session = "lisa";
  made.call = 300;
  made.group = 2;
  made.fields = {{"x", {make_text(deed)}}, {"more", {make_number(1), make_text("second")}}};
  return made;
}

MakeRole role(const std::string& name, const std::string& plugin, std::uint32_t threads = 1) {
  MakeRole make;
  make.role.name.text = name;
  make.role.plugin.text = plugin;
  make.replica = 1;
  make.model_directory = "/m";
  make.threads = threads;
  return make;
}

MakeParam param(const std::string& name, std::int64_t pages = 8) {
  MakeParam make;
  make.spec.name.text = name;
  make.spec.kind.text = "pages";
  make.spec.pages = pages;
  make.model_directory = "/p";
  return make;
}

void send_control(int control, const wire::Bytes& bytes, const std::vector<int>& with = {}) {
  REQUIRE(send_with_files(control, bytes, with, 0) >= 0);
}

std::unique_ptr<Channel> open_channel(int control, std::uint32_t number) {
  auto sockets = socket_pair(SOCK_STREAM);
  REQUIRE(sockets.ok());
  send_control(control, encode(Control(OpenChannel{number})), {sockets->second.get()});
  return std::make_unique<Channel>(std::move(sockets->first));
}

bool is_last(const Request& request, const Reply& reply) {
  if (const HostedWork* work = std::get_if<HostedWork>(&request))
    return work->admit ? std::holds_alternative<Stepped>(reply)
                       : std::holds_alternative<Ended>(reply);
  if (std::holds_alternative<LookAtPool>(request)) return std::holds_alternative<PoolSeen>(reply);
  return std::holds_alternative<StepRequest>(request) ? std::holds_alternative<Stepped>(reply)
                                                      : std::holds_alternative<Made>(reply);
}

/// A host that runs in a thread, and a journal of what was said to it.
class Inside {
 public:
  explicit Inside(test::Outcomes& outcomes, std::string title)
      : outcomes_(outcomes), title_(std::move(title)) {
    fill(catalog_, deeds_);
    auto sockets = socket_pair(SOCK_SEQPACKET);
    REQUIRE(sockets.ok());
    control_ = std::move(sockets->first);
    const int theirs = ::fcntl(sockets->second.get(), F_DUPFD, 0);  // a host's is not closed yet
    theirs_ = theirs;
    thread_ = std::thread([this, theirs] { status_ = serve_host(catalog_, theirs); });
  }
  ~Inside() { end(); }

  int control() const { return control_.get(); }
  int theirs() const { return theirs_; }
  void open(std::uint32_t number) { channels_[number] = open_channel(control(), number); }
  void tell(std::uint32_t channel, const Request& request) {
    REQUIRE(channels_.at(channel)->send(encode(request).value()).ok());
  }
  Reply next(std::uint32_t channel) {
    const Result<wire::Bytes> bytes = channels_.at(channel)->receive();
    REQUIRE(bytes.ok());
    const Result<Reply> reply = decode_reply(*bytes);
    REQUIRE(reply.ok());
    add(words(*reply));
    return *reply;
  }
  void hear(std::uint32_t channel, const Request& request) {
    while (!is_last(request, next(channel))) continue;
    for (const std::string& deed : deeds_.take()) add("  " + deed);
  }
  void ask(std::uint32_t channel, const std::string& what, const Request& request) {
    add("> " + std::to_string(channel) + ' ' + what);
    tell(channel, request);
    hear(channel, request);
  }
  void run(std::uint32_t channel, std::uint64_t id, const std::string& deed) {
    ask(channel, "run " + std::to_string(id) + ": " + deed, work(id, deed));
  }
  void admit(std::uint32_t channel, std::uint64_t id, const std::string& deed) {
    ask(channel, "admit " + std::to_string(id) + ": " + deed, work(id, deed, true));
  }
  void step(std::uint32_t channel, std::vector<std::uint64_t> cancelled = {}) {
    ask(channel, "step", StepRequest{std::move(cancelled)});
  }
  /// Returns when the host has taken all that was said on its control socket.
  void ping() {
    const Control sent{Ping{++pings_}};
    send_control(control(), encode(sent));
    std::array<std::byte, control_max> bytes{};
    const ssize_t came = ::recv(control(), bytes.data(), bytes.size(), 0);
    REQUIRE(came > 0);
    const auto pong = decode_control(std::span(bytes).first(static_cast<std::size_t>(came)));
    REQUIRE(pong.ok());
    const Ping* const back = std::get_if<Ping>(&*pong);
    REQUIRE((back != nullptr && back->number == pings_));
  }
  void cancel(std::uint32_t channel, std::uint64_t activation) {
    send_control(control(), encode(Control(Cancel{channel, activation})));
    add("> cancel " + std::to_string(channel) + ' ' + std::to_string(activation));
  }
  void hang_up() { control_.close(); }
  int end() {
    if (!thread_.joinable()) return status_;
    control_.close();
    channels_.clear();
    thread_.join();
    for (const std::string& deed : deeds_.take()) add("  " + deed);
    return status_;
  }

 private:
  void add(const std::string& line) {
    outcomes_.add(title_, std::to_string(++lines_) + ' ' + line);
  }

  test::Outcomes& outcomes_;
  const std::string title_;
  int lines_ = 0;
  Deeds deeds_;
  Catalog catalog_;
  OwnedFile control_;
  int theirs_ = -1;
  std::uint64_t pings_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Channel>> channels_;
  int status_ = -1;
  std::thread thread_;
};

/// How a host ends that is a process: what it says, and its status.
std::string end_of(const std::function<void(int control)>& talk) {
  auto sockets = socket_pair(SOCK_SEQPACKET);
  REQUIRE(sockets.ok());
  int said[2];
  REQUIRE(::pipe2(said, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(said[1], STDERR_FILENO);
    sockets->first.close();
    Deeds deeds;
    Catalog catalog;
    fill(catalog, deeds);
    ::_exit(serve_host(catalog, sockets->second.get()));
  }
  ::close(said[1]);
  sockets->second.close();
  talk(sockets->first.get());
  sockets->first.close();
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = ::read(said[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(said[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return text + (WIFEXITED(status) ? "status " + std::to_string(WEXITSTATUS(status)) : "a signal");
}

void tell(Channel& channel, const Request& request) {
  REQUIRE(channel.send(encode(request).value()).ok());
}
void until_closed(Channel& channel) {
  while (channel.receive().ok()) continue;
}

}  // namespace

TEST_CASE("a role host makes of each word what it made of it before") {
  test::Outcomes outcomes("host_child");
  {
    Inside host(outcomes, "making");
    host.open(4);
    host.ask(4, "make kv", param("kv"));
    host.open(5);
    host.ask(5, "make 13 pages", param("few", 13));
    host.ask(5, "make 14 pages", param("none", 14));
    MakeParam strange = param("strange");
    strange.spec.kind.text = "nothing";
    host.ask(5, "make a parameter of no kind", strange);
    host.open(6);
    MakeRole one = role("one", "plain", 3);
    host.ask(6, "make of no plugin", role("one", "nobody"));
    one.params = {5};
    host.ask(6, "make with a parameter that is not there", one);
    one.params = {4};
    one.role.options = {OptionSpec{{"fails", {}}, {"yes", {}}}};
    host.ask(6, "make, which fails", one);
    one.role.options = {OptionSpec{{"throws", {}}, {"yes", {}}}};
    host.ask(6, "make, which throws", one);
    one.role.options.clear();
    host.ask(6, "make", one);
    host.open(7);
    host.ask(7, "make", role("two", "stepped", 2));
    host.ask(4, "end a session", EndSession{"lisa"});
    host.ask(4, "end a session, which throws", EndSession{"bad"});
    host.ask(4, "look at its pool", LookAtPool{7});
    host.open(8);
    host.ask(8, "make a parameter without a pool", param("poolless", 0));
    host.ask(8, "look at its pool", LookAtPool{7});
    host.open(9);
    host.ask(9, "make a parameter whose pool throws", param("broken", 15));
    host.ask(9, "look at its pool", LookAtPool{7});
    host.ping();
    CHECK((::fcntl(host.theirs(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(host.end() == 0);
  }
  {
    Inside host(outcomes, "plain work");
    host.open(1);
    host.ask(1, "make", role("one", "plain"));
    std::uint64_t id = 0;
    for (const char* deed : {"yields", "hands on", "yields nothing", "yields stuck", "yields",
                             "fails after stuck", "warns", "reads others", "says what it is",
                             "fails", "throws", "throws a number", "dances", "is it cancelled"})
      host.run(1, ++id, deed);
    CHECK(host.end() == 0);
  }
  {
    Inside host(outcomes, "stepped work");
    host.open(1);
    host.ask(1, "make", role("one", "stepped"));
    host.admit(1, 1, "ends");
    host.admit(1, 2, "fails");
    host.admit(1, 3, "yields");
    host.admit(1, 4, "ends when cancelled");
    host.admit(1, 5, "ends when cancelled");
    host.step(1);
    host.step(1, {9, 5});
    host.step(1, {4});
    host.admit(1, 6, "is refused");
    host.step(1);
    host.admit(1, 7, "is kept and refused");
    host.admit(1, 8, "stays");
    host.step(1);
    host.admit(1, 9, "throws");
    host.step(1);
    host.step(1);
    host.admit(1, 10, "yields stuck");
    host.admit(1, 11, "is forgotten");
    host.admit(1, 12, "says what it is");
    host.step(1);
    host.step(1);
    CHECK(host.end() == 0);
  }
  {
    Inside host(outcomes, "stepped work that is forgotten");
    host.open(1);
    MakeRole make = role("one", "stepped");
    make.role.options = {OptionSpec{{"clears", {}}, {"yes", {}}}};
    host.ask(1, "make", make);
    host.admit(1, 1, "is forgotten");
    host.admit(1, 2, "ends");
    host.step(1);
    host.admit(1, 3, "yields");
    host.admit(1, 4, "throws");
    host.admit(1, 5, "stays");
    host.step(1);
    host.admit(1, 1, "is it cancelled");
    host.step(1);
    host.admit(1, 3, "stays");  // until the host ends
    CHECK(host.end() == 0);
  }
  outcomes.require_as_kept();
}

TEST_CASE("a role host cancels what runs and what is on its way, and nothing else") {
  test::Outcomes outcomes("host_child_cancels");
  {
    Inside host(outcomes, "cancels");
    host.open(1);
    host.ask(1, "make", role("one", "plain"));
    host.open(2);
    host.ask(2, "make", role("two", "plain"));
    const auto cancelled_before = [&](std::uint32_t channel, std::uint64_t activation) {
      host.cancel(channel, activation);
      host.ping();
    };
    host.run(1, 5, "yields");
    cancelled_before(1, 5);  // has ended
    host.run(1, 5, "is it cancelled");
    cancelled_before(1, 6);
    host.run(2, 6, "is it cancelled");
    host.run(1, 6, "is it cancelled");
    host.run(1, 6, "is it cancelled");  // once
    host.run(1, 9, "yields");
    host.run(1, 8, "yields");
    cancelled_before(1, 9);  // the newest that has ended
    host.run(1, 9, "is it cancelled");
    const HostedWork long_one = work(10, "waits");
    host.tell(1, long_one);
    host.next(1);
    cancelled_before(2, 10);
    cancelled_before(1, 11);
    host.cancel(1, 10);
    host.hear(1, long_one);
    host.run(2, 10, "is it cancelled");
    host.run(1, 11, "is it cancelled");
    const HostedWork last = work(12, "waits");
    host.tell(1, last);
    host.next(1);
    host.hang_up();  // nobody is there: all that runs is cancelled
    host.hear(1, last);
    CHECK(host.end() == 0);
  }
  {
    Inside host(outcomes, "many that never come");
    host.open(1);
    host.ask(1, "make", role("one", "plain"));
    for (std::uint64_t id = 1; id <= 4097; ++id)
      send_control(host.control(), encode(Control(Cancel{1, 10'000 - id})));
    host.ping();
    host.run(1, 10'000 - 4097, "is it cancelled");
    host.run(1, 10'000 - 4096, "is it cancelled");
    CHECK(host.end() == 0);
  }
  outcomes.require_as_kept();
}

TEST_CASE("a role host ends when it is told nonsense, and says which") {
  test::Outcomes outcomes("host_child_ends");
  const auto on_control = [&](const std::string& title, wire::Bytes bytes, std::size_t with = 0) {
    outcomes.add(title, end_of([&](int control) {
                   auto sockets = socket_pair(SOCK_STREAM);
                   REQUIRE(sockets.ok());
                   send_control(control, bytes, std::vector<int>(with, sockets->second.get()));
                   sockets->second.close();
                   std::byte one{};
                   while (::recv(control, &one, 1, 0) > 0) continue;
                 }));
  };
  on_control("a kind that there is none of", {std::byte{9}});
  wire::Bytes ping = encode(Control(Ping{1}));
  ping.push_back(std::byte{0});
  on_control("a byte too many", ping);
  on_control("more bytes than a message has", wire::Bytes(control_max + 1));
  on_control("many sockets", encode(Control(OpenChannel{1})), 3);
  outcomes.add("nobody reads its answer", end_of([](int control) {
                 ::shutdown(control, SHUT_RD);
                 send_control(control, encode(Control(Ping{1})));
               }));
  const auto on_channel = [&](const std::string& title, const std::vector<Request>& requests,
                              const wire::Bytes& last = {}) {
    outcomes.add(title, end_of([&](int control) {
                   const auto channel = open_channel(control, 1);
                   for (const Request& one : requests) tell(*channel, one);
                   if (!last.empty()) REQUIRE(channel->send(last).ok());
                   until_closed(*channel);
                 }));
  };
  on_channel("no request", {}, {std::byte{77}});
  on_channel("work before a role", {work(1, "yields")});
  on_channel("work for a role that is stepped", {role("r", "stepped"), work(1, "yields")});
  on_channel("work to admit to a role that is not", {role("r", "plain"), work(1, "yields", true)});
  on_channel("a step of no role", {StepRequest{}});
  on_channel("a step of a plain role", {role("r", "plain"), StepRequest{}});
  on_channel("an end of a session of a role", {role("r", "plain"), EndSession{"s"}});
  on_channel("a look at the pool of a role", {role("r", "plain"), LookAtPool{1}});
  on_channel("a stepped role that ends what it does not hold",
             {role("r", "stepped"), work(1, "strange", true), StepRequest{}});
  outcomes.add("a length that cannot be", end_of([](int control) {
                 auto sockets = socket_pair(SOCK_STREAM);
                 REQUIRE(sockets.ok());
                 send_control(control, encode(Control(OpenChannel{1})), {sockets->second.get()});
                 sockets->second.close();
                 REQUIRE(::send(sockets->first.get(), "\xff\xff\xff\xff", 4, MSG_NOSIGNAL) == 4);
                 Channel channel(std::move(sockets->first));
                 until_closed(channel);
               }));
  outcomes.add("a channel that closes while a role computes", end_of([](int control) {
                 auto channel = open_channel(control, 1);
                 tell(*channel, role("r", "plain"));
                 tell(*channel, work(1, "waits"));
                 REQUIRE(channel->receive().ok());  // made
                 REQUIRE(channel->receive().ok());  // it waits
                 channel.reset();
                 send_control(control, encode(Control(Cancel{1, 1})));
                 std::byte one{};
                 while (::recv(control, &one, 1, 0) > 0) continue;
               }));
  outcomes.add("all is closed", end_of([](int control) {
                 const auto channel = open_channel(control, 1);
                 tell(*channel, role("r", "plain"));
                 REQUIRE(channel->receive().ok());
               }));
  outcomes.require_as_kept();
}
