// How fast messages go from machine to machine, beside ZeroMQ alone: one way, and there and back.
//
// Both sides run in one process, each with a context of its own. Raw ZeroMQ: a DEALER and a ROUTER,
// one piece a message, queues without bound, a thread for each end. The echo sends back what came,
// without a copy.
//
// There and back twice. Round trip: whoever receives sends what came on at once; ours from
// `received`, as engines do, ZeroMQ's on the thread of its socket. To a thread that waits: another
// thread than the one that receives makes each message and waits, as a caller of a workflow does.
// A socket is for one thread only, so ZeroMQ's has a PAIR beside it by which it is told what to
// send.
//
// Then values to another machine of this computer: in memory that both share, written in place or
// copied there once, beside ZeroMQ with the bytes in the message. What roles do with the bytes
// is in neither figure, only the copies are. 64 bytes come back, as for the message of 64 bytes,
// which a value should cost no more than.
//
// Prints medians and the ratios. `bench_links [--plain] [--runs N]`: --plain prints lines of words
// and figures for a program (bench/link_peers.py), links only; --runs says how many runs the
// medians of the links are of, 3 unless said.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "bench/usage.h"
#include "runtime/zmq/zmq_transport.h"

using namespace sluice;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int value_runs = 7;
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
  std::function<void(MessageBytes)> answer;
  void received(Origin, Channel, MessageBytes bytes) override {
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
  double waited(std::size_t size, std::size_t turns) {
    echo();
    const std::size_t before = second.received_.get();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < turns; ++i) {
      two->send({1, 1}, Channel::message, wire::Bytes(size, std::byte{7}));
      second.received_.wait(before + i + 1);
    }
    first.answer = nullptr;
    return seconds_since(start);
  }
  double round_trip(std::size_t size, std::size_t turns) {
    echo();
    std::size_t left = turns - 1;  // of the thread on which `second` hears
    second.answer = [this, &left](MessageBytes bytes) {
      if (left == 0) return;
      --left;
      two->send({1, 1}, Channel::message, std::move(bytes));
    };
    const std::size_t before = second.received_.get();
    const Clock::time_point start = Clock::now();
    two->send({1, 1}, Channel::message, wire::Bytes(size, std::byte{7}));
    second.received_.wait(before + turns);
    first.answer = nullptr;
    second.answer = nullptr;
    return seconds_since(start);
  }

 private:
  void echo() {
    first.answer = [this](MessageBytes bytes) {
      one->send({2, 1}, Channel::message, std::move(bytes));
    };
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
  double round_trip(std::size_t size, std::size_t turns) {
    std::thread other([this, turns] { echo(turns); });
    const Clock::time_point start = Clock::now();
    zmq::message_t piece = message(size);
    for (std::size_t i = 0; i < turns; ++i) {
      dealer.send(std::move(piece), zmq::send_flags::none);
      static_cast<void>(dealer.recv(piece));
    }
    const double took = seconds_since(start);
    other.join();
    return took;
  }
  double waited(std::size_t size, std::size_t turns) {
    zmq::socket_t said(context_b, zmq::socket_type::pair), heard(context_b, zmq::socket_type::pair);
    // Of a socket that was closed the name is free some time later.
    const std::string name = "inproc://to-send-" + std::to_string(++named_);
    heard.bind(name);
    said.connect(name);
    Count answers;
    std::thread other([this, turns] { echo(turns); });
    std::thread owner([this, turns, &heard, &answers] { serve(heard, turns, answers); });
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < turns; ++i) {
      said.send(message(size), zmq::send_flags::none);
      answers.wait(i + 1);
    }
    const double took = seconds_since(start);
    owner.join();
    other.join();
    return took;
  }
  void echo(std::size_t turns) {
    zmq::message_t id, piece;
    for (std::size_t i = 0; i < turns; ++i) {
      static_cast<void>(router.recv(id));
      static_cast<void>(router.recv(piece));
      router.send(std::move(id), zmq::send_flags::sndmore);
      router.send(std::move(piece), zmq::send_flags::none);
    }
  }

 private:
  /// The dealer's thread: sends what it hears, and counts the answers.
  void serve(zmq::socket_t& heard, std::size_t turns, Count& answers) {
    zmq::message_t piece;
    for (std::size_t answered = 0; answered < turns;) {
      std::array<zmq::pollitem_t, 2> any{
          {{dealer.handle(), 0, ZMQ_POLLIN, 0}, {heard.handle(), 0, ZMQ_POLLIN, 0}}};
      zmq::poll(any);
      if (any[1].revents != 0) {
        static_cast<void>(heard.recv(piece));
        dealer.send(std::move(piece), zmq::send_flags::none);
      }
      if (any[0].revents == 0) continue;
      static_cast<void>(dealer.recv(piece));
      ++answered;
      answers.add();
    }
  }

  int named_ = 0;
};

/// A value of `size` bytes goes, 64 bytes come back.
class Values {
 public:
  explicit Values(Ours& ours) : ours_(ours) {
    ours_.first.answer = [this](MessageBytes bytes) { answer(bytes.view()); };
  }
  ~Values() { ours_.first.answer = nullptr; }

  /// Writes each value where it is lent, or elsewhere, so that it is copied.
  double in_place(std::size_t size, std::size_t turns, bool copies) {
    wire::Lender& lender = *ours_.two->lender();
    const Ref<Buffer> host = Buffer::zeros(size);
    const std::size_t before = ours_.second.received_.get();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < turns; ++i) {
      const Ref<Buffer> value = copies ? host : lender.make(size);
      wire::Bytes bytes;
      wire::ByteWriter out(bytes);
      if (!value) fail("no block is free");
      const std::optional<wire::Handle> handle = lender.lend({1, 1}, value);
      if (!handle) fail("a value was not lent");
      for (const std::uint64_t number :
           {std::uint64_t{handle->slab}, std::uint64_t{handle->block}, handle->generation, size})
        out.number(number);
      bytes.resize(64);
      ours_.two->send({1, 1}, Channel::message, std::move(bytes));
      ours_.second.received_.wait(before + i + 1);
    }
    return seconds_since(start);
  }
  double small(std::size_t turns) {
    const std::size_t before = ours_.second.received_.get();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < turns; ++i) {
      ours_.two->send({1, 1}, Channel::message, wire::Bytes(64));
      ours_.second.received_.wait(before + i + 1);
    }
    return seconds_since(start);
  }
  /// Until the other side has mapped the memory.
  void wait() const {
    const Ref<Buffer> value = Buffer::zeros(std::size_t{1} << 20U);
    std::optional<wire::Handle> handle;
    while (!handle) {
      handle = ours_.two->lender()->lend({1, 1}, value);
      std::this_thread::yield();
    }
    ours_.two->lender()->take_back({1, 1}, *handle);
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }
  void answer(std::span<const std::byte> bytes) {
    wire::ByteReader in(bytes);
    wire::Handle handle;
    handle.slab = static_cast<std::uint32_t>(in.number("a slab", ~0U));
    handle.block = static_cast<std::uint32_t>(in.number("a block", ~0U));
    handle.generation = in.number("a generation", ~std::uint64_t{0});
    const std::size_t size = in.number("a size", ~std::uint64_t{0});
    Ref<Buffer> value;  // until the answer has left, as a role has its inputs until it ends
    if (handle.generation != 0) {
      Result<Ref<Buffer>> borrowed = ours_.one->lender()->borrow({2, 1}, handle, size);
      if (!borrowed) fail(borrowed.error().message.c_str());
      value = std::move(*borrowed);
      seen_ =
          static_cast<unsigned>(value->data()[0]) + static_cast<unsigned>(value->data()[size - 1]);
    }
    ours_.one->send({2, 1}, Channel::message, wire::Bytes(64));
  }

  Ours& ours_;
  volatile unsigned seen_ = 0;
};

/// ZeroMQ's side of it: the bytes travel, and 64 come back.
double raw_values(Raw& raw, std::size_t size, std::size_t turns) {
  std::thread echo([&] {
    zmq::message_t id, piece;
    for (std::size_t i = 0; i < turns; ++i) {
      static_cast<void>(raw.router.recv(id));
      static_cast<void>(raw.router.recv(piece));
      raw.router.send(std::move(id), zmq::send_flags::sndmore);
      raw.router.send(Raw::message(64), zmq::send_flags::none);
    }
  });
  const Clock::time_point start = Clock::now();
  zmq::message_t answer;
  for (std::size_t i = 0; i < turns; ++i) {
    raw.dealer.send(zmq::message_t(size), zmq::send_flags::none);
    static_cast<void>(raw.dealer.recv(answer));
  }
  const double took = seconds_since(start);
  echo.join();
  return took;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Size {
  std::size_t bytes, messages, turns;
};

struct Addresses {
  std::string ours_a, ours_b, raw;
};

struct Options {
  bool plain = false;
  int runs = 3;
};

constexpr const char* usage = "usage: bench_links [--plain] [--runs N]";

Options options_of(int count, char** arguments) {
  Options made;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--plain") {
      made.plain = true;
    } else if (word == "--runs" && i + 1 < count && std::atoi(arguments[i + 1]) > 0) {
      made.runs = std::atoi(arguments[++i]);
    } else {
      std::fprintf(stderr, "error: '%s'\n%s, N above 0\n", word.c_str(), usage);
      std::exit(2);
    }
  }
  return made;
}

/// Ours and ZeroMQ's connections, over which something has gone already.
struct Both {
  Ours ours;
  Raw raw;
  Both(const Addresses& at, std::size_t size) : ours(at.ours_a, at.ours_b), raw(at.raw) {
    ours.waited(size, 2);
    raw.waited(size, 2);
  }
};

/// Runs of the two take turns, so that a neighbour on the machine disturbs both. One way and turns
/// have new connections in each run: a kernel that paces tcp (BBR) settles on each at a pace that
/// it keeps, which after a stream is another than after turns, and differs by half by chance. Turns
/// are made twice, the second time measured: at first an allocator may give memory back and take
/// new pages in each, 0.2 ms of 1 MiB, ours or ZeroMQ's.
void compare(const Options& options, const char* way, const Addresses& at, const Size& work) {
  const auto& [size, messages, turns] = work;
  std::vector<double> rate, raw_rate, trip, raw_trip, waited, raw_waited;
  const double many = static_cast<double>(messages), back = static_cast<double>(turns);
  for (int run = 0; run <= options.runs; ++run) {  // the first warms up
    auto both = std::make_unique<Both>(at, size);
    const double a = both->ours.one_way(size, messages), b = both->raw.one_way(size, messages);
    both.reset();
    both = std::make_unique<Both>(at, size);
    const auto warm = [turns = turns](const auto& measured) {
      measured(turns);
      return measured(turns);
    };
    const double c = warm([&](std::size_t n) { return both->ours.round_trip(size, n); });
    const double d = warm([&](std::size_t n) { return both->raw.round_trip(size, n); });
    const double e = warm([&](std::size_t n) { return both->ours.waited(size, n); });
    const double f = warm([&](std::size_t n) { return both->raw.waited(size, n); });
    if (run == 0) continue;
    rate.push_back(many / a);
    raw_rate.push_back(many / b);
    trip.push_back(1e6 * c / back);
    raw_trip.push_back(1e6 * d / back);
    waited.push_back(1e6 * e / back);
    raw_waited.push_back(1e6 * f / back);
  }
  if (options.plain) {
    std::printf("link %s %zu per_second %.0f us %.2f zeromq_per_second %.0f zeromq_us %.2f\n", way,
                size, median(rate), median(trip), median(raw_rate), median(raw_trip));
    std::fflush(stdout);
    return;
  }
  std::printf(
      "%-4s %8zu B  one way %9.0f /s  ZeroMQ %9.0f /s  ratio %5.2f    round trip %8.1f us  "
      "ZeroMQ %8.1f us  ratio %5.2f    to a thread that waits %8.1f us  ZeroMQ %8.1f us  ratio "
      "%5.2f  over ZeroMQ's round trip %5.2f\n",
      way, size, median(rate), median(raw_rate), median(rate) / median(raw_rate), median(trip),
      median(raw_trip), median(trip) / median(raw_trip), median(waited), median(raw_waited),
      median(waited) / median(raw_waited), median(waited) / median(raw_trip));
  std::fflush(stdout);
}

void compare_values(const std::string& folder, std::size_t size, std::size_t turns) {
  const std::string ipc = "ipc://" + folder + "/v" + std::to_string(size);
  Ours ours(ipc + "a", ipc + "b");
  Raw raw(ipc + "raw");
  Values values(ours);
  values.wait();
  std::vector<double> small, placed, copied, sent;
  const auto turn = [&](double seconds) { return 1e6 * seconds / static_cast<double>(turns); };
  for (int run = 0; run <= value_runs; ++run) {
    const double a = turn(values.small(turns)), b = turn(values.in_place(size, turns, false));
    const double c = turn(values.in_place(size, turns, true)),
                 d = turn(raw_values(raw, size, turns));
    if (run == 0) continue;
    small.push_back(a);
    placed.push_back(b);
    copied.push_back(c);
    sent.push_back(d);
  }
  const double least = median(small);
  std::printf(
      "value %8zu B  in place %8.1f us  copied once %8.1f us  ZeroMQ %8.1f us  64 B %8.1f us    "
      "in place over 64 B %5.2f  over ZeroMQ %6.3f  copied over ZeroMQ %5.2f\n",
      size, median(placed), median(copied), median(sent), least, median(placed) / least,
      median(placed) / median(sent), median(copied) / median(sent));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (const auto status = usage_status(count, arguments, usage, {"--plain", "--runs"}))
    return *status;
  const Options options = options_of(count, arguments);
  std::string directory = "/tmp/sluice-links-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  if (!options.plain)
    for (const Size size : {Size{64 << 10, 0, 1000}, Size{1 << 20, 0, 300}, Size{16 << 20, 0, 60}})
      compare_values(directory, size.bytes, size.turns);
  int port = 20'000 + getpid() % 20'000;
  for (const Size size : {Size{64, 1'000'000, 5000}, Size{64 << 10, 20'000, 3000},
                          Size{1 << 20, 1500, 300}, Size{16 << 20, 60, 30}}) {
    Size work = size;
    if (options.plain) {  // shorter: other programs take turns with this one
      work.messages = std::max<std::size_t>(size.messages / 4, 30);
      work.turns = std::max<std::size_t>(size.turns / 4, 15);
    }
    const std::string ipc = "ipc://" + directory + "/" + std::to_string(size.bytes);
    compare(options, "ipc", {ipc + "a", ipc + "b", ipc + "raw"}, work);
    const auto tcp = [&] { return "tcp://127.0.0.1:" + std::to_string(port++); };
    const std::string a = tcp(), b = tcp(), c = tcp();
    compare(options, "tcp", {a, b, c}, work);
  }
  std::filesystem::remove_all(directory);
}
