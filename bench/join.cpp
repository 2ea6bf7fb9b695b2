// What a join across three processes of one computer costs, beside raw ZeroMQ.
//
// A call starts a role in each of two other processes; a role here waits for what both yield, and
// its sum is the answer. ZeroMQ's way to do the same: a DEALER for each of two processes whose
// ROUTER echoes; both are asked, then both answers are read. The two take turns, call by call;
// medians of calls, 2,000 unless said. Nobody spins: each side sleeps until something comes.
// `bench_join [CALLS]`.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>
#include <zmq.hpp>

#include "bench/machine.h"
#include "bench/usage.h"

using namespace sluice;
using bench::fail;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* workflow = R"(
sluice: 1
workflow: join
inputs: { n: number }
roles: { here: { plugin: joins }, one: { plugin: joins }, other: { plugin: joins } }
nodes:
  a: { run: one.give, inputs: [ { n: inputs.n } ], outputs: [v] }
  b: { run: other.give, inputs: [ { n: inputs.n } ], outputs: [v] }
  both: { run: here.add, inputs: [ { p: a.v, q: b.v } ], outputs: [v] }
outputs: { out: both.v }
)";

class Joins final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    const bool adds = activation.interface() == "add";
    activation.yield(
        "v", make_number(adds ? activation.input("p")->number + activation.input("q")->number
                              : activation.input("n")->number));
    return {};
  }
};

bench::Machine machine(const std::string& folder, std::uint32_t self) {
  return {folder, self, bench::plugin_of<Joins>("joins"), workflow, {{0}, {1}, {2}}, 3};
}

std::string raw_address(const std::string& folder, std::uint32_t machine) {
  return "ipc://" + folder + "/raw" + std::to_string(machine);
}

/// Until its process ends.
void echo(zmq::socket_t router) {
  zmq::message_t id, piece;
  while (router.recv(id) && router.recv(piece)) {
    router.send(std::move(id), zmq::send_flags::sndmore);
    router.send(std::move(piece), zmq::send_flags::none);
  }
}

/// Until `ends` is closed.
[[noreturn]] void serve(const std::string& folder, std::uint32_t self, int ends) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.bind(raw_address(folder, self));
  std::thread(echo, std::move(router)).detach();
  const bench::Machine there = machine(folder, self);
  char byte = 0;
  while (read(ends, &byte, 1) > 0) continue;
  _exit(0);
}

class Raw {
 public:
  explicit Raw(const std::string& folder) {
    for (std::uint32_t i = 0; i < 2; ++i) sockets_[i].connect(raw_address(folder, i + 1));
  }
  void turn() {
    for (zmq::socket_t& socket : sockets_) socket.send(zmq::message_t(64), zmq::send_flags::none);
    zmq::message_t answer;
    for (zmq::socket_t& socket : sockets_)
      if (!socket.recv(answer) || answer.size() != 64) fail("ZeroMQ lost an answer");
  }

 private:
  zmq::context_t context_;
  std::array<zmq::socket_t, 2> sockets_{zmq::socket_t(context_, zmq::socket_type::dealer),
                                        zmq::socket_t(context_, zmq::socket_type::dealer)};
};

void call(Node& node, std::int64_t number) {
  std::int64_t sum = 0;
  const CallOutcome outcome =
      node.runner(0).call({.session = "s", .inputs = {{"n", make_number(number)}}},
                          [&](std::string_view, const PayloadRef& value) { sum = value->number; });
  if (!outcome.ok) fail(outcome.error.message);
  if (sum != 2 * number) fail("the sum is not that of both");
}

template <typename Turn>
double micros_of(const Turn& turn) {
  const Clock::time_point start = Clock::now();
  turn();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

void compare(const std::string& folder, int calls) {
  bench::Machine here = machine(folder, 0);
  Raw raw(folder);
  std::vector<double> ours, theirs;
  for (int i = 1; i <= calls + calls / 10; ++i) {
    const double a = micros_of([&] { call(here.node(), i); });
    const double b = micros_of([&] { raw.turn(); });
    if (i <= calls / 10) continue;  // to warm up
    ours.push_back(a);
    theirs.push_back(b);
  }
  std::printf("a join across three processes %.1f us, ZeroMQ alone %.1f us: %.2f times\n",
              median(ours), median(theirs), median(ours) / median(theirs));
}

}  // namespace

int main(int count, char** arguments) {
  if (const auto status = usage_status(count, arguments, "usage: bench_join [CALLS]", {}))
    return *status;
  const int calls = count > 1 ? std::max(std::atoi(arguments[1]), 10) : 2000;
  std::string folder = "/tmp/sluice-join-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return 1;
  std::array<pid_t, 2> others{};
  for (std::uint32_t i = 0; i < 2; ++i)
    if (others[i] = fork(); others[i] == 0) {
      close(ends[1]);
      serve(folder, i + 1, ends[0]);
    }
  close(ends[0]);
  compare(folder, calls);
  close(ends[1]);
  for (const pid_t other : others) waitpid(other, nullptr, 0);
  std::filesystem::remove_all(folder);
}
