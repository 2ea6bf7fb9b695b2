// The same pages over tcp, from a process that is killed and begun anew.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "changing_pages.h"
#include "runtime/peer_channels.h"
#include "runtime/zmq/zmq_transport.h"

namespace sluice::soak {
namespace {

constexpr std::uint64_t channel = 7;
constexpr std::uint64_t reads_a_life = 100'000;
constexpr auto patience = std::chrono::seconds(30);

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "torn_reads: %s\n", what.c_str());
  std::_Exit(2);
}

std::unique_ptr<PeerPort> port_of(std::uint32_t machine, std::uint32_t incarnation,
                                  const std::string& own, const std::string& other) {
  PeerPortOptions port;
  port.self = {machine, incarnation};
  port.connect = [=](Origin self) {
    ZmqOptions options;
    options.self = self;
    options.bind = own;
    options.peers = {{1 - machine, other, ""}};
    options.shared_bytes = 0;
    options.cluster = "torn_reads";
    return make_zmq_transport(std::move(options));
  };
  auto made = make_peer_port(std::move(port));
  if (!made.ok()) give_up(made.error().message);
  return std::move(made).value();
}

/// What the port's threads say, for one thread.
class Ear final : public PeerPort::Listener {
 public:
  struct News {
    enum class Kind : std::uint8_t { joined, lost, message };
    Kind kind = Kind::message;
    PeerLife peer;
    pages::Bytes bytes = {};
  };

  std::optional<News> next(std::chrono::nanoseconds most) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, most, [&] { return !news_.empty(); });
    if (news_.empty()) return std::nullopt;
    News one = std::move(news_.front());
    news_.pop_front();
    return one;
  }

 private:
  void put(News one) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(one));
    came_.notify_one();
  }
  void joined(PeerLife peer) override { put({News::Kind::joined, peer}); }
  void lost(PeerLife peer) override { put({News::Kind::lost, peer}); }
  using PeerPort::Listener::arrived;
  void arrived(PeerLife peer, std::vector<std::byte> message) override {
    put({News::Kind::message, peer, std::move(message)});
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<News> news_;
};

class Serving final : public PeerPort::Listener {
 public:
  Serving(PeerPort& port, ChangingPages& pages, bool is_blind)
      : port_(port), copier_(pages, 11, is_blind), server_(hello_of(port.self().incarnation), {4}) {
    SLUICE_CHECK(port_.open(channel, *this));
  }
  ~Serving() override { port_.close(channel); }

 private:
  void joined(PeerLife peer) override { server_.met(peer); }
  void lost(PeerLife peer) override { server_.lost(peer); }
  using PeerPort::Listener::arrived;
  void arrived(PeerLife peer, std::vector<std::byte> message) override {
    const auto read = pages::decode(message);
    if (!read.has_value()) return server_.take_nonsense();
    server_.take(peer, *read, copier_, out_);
    send();
    while (server_.has_more()) {
      server_.go_on(copier_, out_);
      send();
    }
  }
  void send() {
    for (PeerMessage& one : out_) port_.send(channel, one.peer, std::move(one.bytes));
    out_.clear();
  }

  PeerPort& port_;
  Copier copier_;
  PageServer server_;
  std::vector<PeerMessage> out_;
};

/// On the loopback, and nobody's now.
std::string free_address() {
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (made < 0 || ::bind(made, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::getsockname(made, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    give_up("no port on the loopback");
  ::close(made);
  return "tcp://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

/// A process that serves, until it is killed.
class Child {
 public:
  Child(std::string own, std::string client, bool is_blind)
      : own_(std::move(own)), client_(std::move(client)), is_blind_(is_blind) {}
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void begin() {
    const std::string incarnation = std::to_string(++lives_);
    process_ = ::fork();
    if (process_ < 0) give_up("no process");
    if (process_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", "torn_reads", "--serve", own_.c_str(), client_.c_str(),
            incarnation.c_str(), is_blind_ ? "blind" : "sees", nullptr);
    std::_Exit(2);
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  std::string own_, client_;
  bool is_blind_;
  std::uint32_t lives_ = 0;
  pid_t process_ = -1;
};

}  // namespace

int serve_tcp(const std::string& address, const std::string& client, std::uint32_t incarnation,
              bool is_blind) {
  const Contents contents(keys_there);
  ChangingPages pages(contents);
  const std::unique_ptr<PeerPort> port = port_of(0, incarnation, address, client);
  const Serving serving(*port, pages, is_blind);
  for (;;) ::pause();
}

Tally read_tcp(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Contents contents(keys_there);
  const std::string server = free_address(), own = free_address();
  Child child(server, own, options.is_blind);
  child.begin();
  const std::unique_ptr<PeerPort> port = port_of(1, 1, own, server);
  Ear ear;
  SLUICE_CHECK(port->open(channel, ear));
  Asker asker(contents, 32, 5);
  bool is_there = false;
  std::uint64_t next_life = std::min(reads_a_life, options.tcp / 2);
  auto heard = std::chrono::steady_clock::now();
  while (asker.tally.reads < options.tcp) {
    if (is_there && asker.is_over()) asker.begin();
    for (PeerMessage& one : asker.take_out()) port->send(channel, one.peer, std::move(one.bytes));
    if (asker.tally.reads >= next_life) {  // amid a pull
      next_life += reads_a_life;
      child.kill();
      child.begin();
      ++asker.tally.restarts;
    }
    std::optional<Ear::News> news = ear.next(std::chrono::milliseconds(100));
    const auto now = std::chrono::steady_clock::now();
    if (!news.has_value()) {
      asker.tick();
      if (now - heard > patience) give_up("the other process is not heard");
      continue;
    }
    heard = now;
    if (news->kind == Ear::News::Kind::message) {
      asker.take(news->peer, std::move(news->bytes));
      continue;
    }
    is_there = news->kind == Ear::News::Kind::joined;
    if (is_there)
      asker.met(news->peer);
    else
      asker.lost(news->peer);
  }
  port->close(channel);
  asker.tally.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return asker.tally;
}

}  // namespace sluice::soak
