// How fast messages go from machine to machine, beside ZeroMQ alone: one way, and there and back.
//
// Both sides run in one process, each with a context of its own. Raw ZeroMQ: a DEALER and a ROUTER,
// one piece a message, queues without bound, a thread for each end. There and back: a thread that
// sends and waits, and an echo, ours from `received`. Prints medians and the ratio of the two.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "runtime/zmq/zmq_transport.h"

using namespace sluice;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int runs = 3;
constexpr std::size_t most_on_the_way = std::size_t{8} << 20U;  // bytes that nobody has taken yet

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How many messages have come, for a thread that waits for some of them.
class Count {
 public:
  void add() {
    const std::size_t now = count_.fetch_add(1) + 1;
    if (now != wanted_.load()) return;
    { const std::lock_guard lock(mutex_); }
    changed_.notify_one();
  }
  void wait(std::size_t wanted) {
    std::unique_lock lock(mutex_);
    wanted_.store(wanted);
    changed_.wait(lock, [&] { return count_.load() >= wanted; });
    wanted_.store(0);
  }
  std::size_t get() const { return count_.load(); }

 private:
  std::atomic<std::size_t> count_{0}, wanted_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct End final : TransportListener {
  Count received_, connected_;
  std::function<void(wire::Bytes)> answer;
  void received(Origin, Channel, wire::Bytes bytes) override {
    if (answer) answer(std::move(bytes));
    received_.add();
  }
  void connected(Origin) override { connected_.add(); }
  void silent(Origin, const std::string& why) override {
    std::fprintf(stderr, "the link ended: %s\n", why.c_str());
    std::exit(1);
  }
  void refused(Origin) override {}
};

struct Ours {
  End first, second;
  std::unique_ptr<Transport> one, two;

  Ours(const std::string& a, const std::string& b) {
    one = make({1, 1}, a, {2, b, ""});
    two = make({2, 1}, b, {1, a, ""});
    one->start(first);
    two->start(second);
    first.connected_.wait(1);
    second.connected_.wait(1);
  }
  ~Ours() {
    one->stop();
    two->stop();
  }
  static std::unique_ptr<Transport> make(Origin self, const std::string& bind, ZmqPeer peer) {
    ZmqOptions options;
    options.self = self;
    options.bind = bind;
    options.peers = {std::move(peer)};
    options.linger = std::chrono::milliseconds(0);
    Result<std::unique_ptr<Transport>> made = make_zmq_transport(std::move(options));
    if (made) return std::move(*made);
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    std::exit(1);
  }

  double one_way(std::size_t size, std::size_t messages) {
    const std::size_t most = std::max<std::size_t>(most_on_the_way / (size + 64), 4);
    const std::size_t before = first.received_.get();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < messages; ++i) {
      if (i % (most / 4) == 0 && i >= most) first.received_.wait(before + i - most + most / 4);
      two->send({1, 1}, Channel::message, wire::Bytes(size, std::byte{7}));
    }
    first.received_.wait(before + messages);
    return seconds_since(start);
  }
  double there_and_back(std::size_t size, std::size_t turns) {
    first.answer = [this](wire::Bytes bytes) {
      one->send({2, 1}, Channel::message, std::move(bytes));
    };
    const std::size_t before = second.received_.get();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < turns; ++i) {
      two->send({1, 1}, Channel::message, wire::Bytes(size, std::byte{7}));
      second.received_.wait(before + i + 1);
    }
    first.answer = nullptr;
    return seconds_since(start);
  }
};

struct Raw {
  zmq::context_t context_a, context_b;
  zmq::socket_t router{context_a, zmq::socket_type::router};
  zmq::socket_t dealer{context_b, zmq::socket_type::dealer};

  explicit Raw(const std::string& address) {
    for (zmq::socket_t* socket : {&router, &dealer}) {
      socket->set(zmq::sockopt::sndhwm, 0);
      socket->set(zmq::sockopt::rcvhwm, 0);
      socket->set(zmq::sockopt::linger, 0);
    }
    router.bind(address);
    dealer.connect(address);
  }
  static zmq::message_t message(std::size_t size) {
    zmq::message_t made(size);
    std::fill_n(static_cast<char*>(made.data()), size, char{7});
    return made;
  }
  double one_way(std::size_t size, std::size_t messages) {
    const std::size_t most = std::max<std::size_t>(most_on_the_way / (size + 64), 4);
    Count taken;
    const Clock::time_point start = Clock::now();
    std::thread receiver([&] {
      zmq::message_t id, piece;
      for (std::size_t i = 0; i < messages; ++i) {
        static_cast<void>(router.recv(id));
        static_cast<void>(router.recv(piece));
        taken.add();
      }
    });
    for (std::size_t i = 0; i < messages; ++i) {
      if (i % (most / 4) == 0 && i >= most) taken.wait(i - most + most / 4);
      dealer.send(message(size), zmq::send_flags::none);
    }
    receiver.join();
    return seconds_since(start);
  }
  double there_and_back(std::size_t size, std::size_t turns) {
    std::thread echo([&] {
      zmq::message_t id, piece;
      for (std::size_t i = 0; i < turns; ++i) {
        static_cast<void>(router.recv(id));
        static_cast<void>(router.recv(piece));
        router.send(std::move(id), zmq::send_flags::sndmore);
        router.send(std::move(piece), zmq::send_flags::none);
      }
    });
    const Clock::time_point start = Clock::now();
    zmq::message_t answer;
    for (std::size_t i = 0; i < turns; ++i) {
      dealer.send(message(size), zmq::send_flags::none);
      static_cast<void>(dealer.recv(answer));
    }
    const double took = seconds_since(start);
    echo.join();
    return took;
  }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Runs of the two take turns, so that a neighbour on the machine disturbs both.
void compare(const char* way, const std::string& ours_a, const std::string& ours_b,
             const std::string& raw_address, std::size_t size, std::size_t messages,
             std::size_t turns) {
  Ours ours(ours_a, ours_b);
  Raw raw(raw_address);
  std::vector<double> rate, raw_rate, trip, raw_trip;
  const double many = static_cast<double>(messages), back = static_cast<double>(turns);
  for (int run = 0; run <= runs; ++run) {  // the first warms up
    const double a = ours.one_way(size, messages), b = raw.one_way(size, messages);
    const double c = ours.there_and_back(size, turns), d = raw.there_and_back(size, turns);
    if (run == 0) continue;
    rate.push_back(many / a);
    raw_rate.push_back(many / b);
    trip.push_back(1e6 * c / back);
    raw_trip.push_back(1e6 * d / back);
  }
  std::printf(
      "%-4s %8zu B  one way %11.0f /s  ZeroMQ %11.0f /s  ratio %5.2f    there and back "
      "%8.1f us  ZeroMQ %8.1f us  ratio %5.2f\n",
      way, size, median(rate), median(raw_rate), median(rate) / median(raw_rate), median(trip),
      median(raw_trip), median(trip) / median(raw_trip));
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::string directory = "/tmp/sluice-links-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  struct Size {
    std::size_t bytes, messages, turns;
  };
  int port = 20'000 + getpid() % 20'000;
  for (const Size size :
       {Size{64, 1'000'000, 5000}, Size{64 << 10, 20'000, 3000}, Size{1 << 20, 1500, 300}}) {
    const std::string ipc = "ipc://" + directory + "/" + std::to_string(size.bytes);
    compare("ipc", ipc + "a", ipc + "b", ipc + "raw", size.bytes, size.messages, size.turns);
    const auto tcp = [&] { return "tcp://127.0.0.1:" + std::to_string(port++); };
    const std::string a = tcp(), b = tcp(), c = tcp();
    compare("tcp", a, b, c, size.bytes, size.messages, size.turns);
  }
  std::filesystem::remove_all(directory);
}
