// What a large value costs from role to role over two processes of one computer, beside 64 bytes.
//
// Through `Node`, as users run it: a call starts a role here that yields a tensor, a role in
// another process reads its first and its last byte and yields a number, which comes back to the
// caller. in place: the tensor is one of `make_output`, of which the role writes those two bytes.
// copied: it stands in the role's own memory, so it is copied once into memory that both processes
// have. What roles write and read beside is in neither figure. Runs take turns; medians of calls,
// and of each run's ratio to 64 bytes. `bench_values [CALLS]`: as many in each run, 200 unless
// said.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "graph/check.h"
#include "runtime/node/node.h"
#include "runtime/zmq/zmq_transport.h"
#include "workflows/load.h"

using namespace sluice;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int runs = 9;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

/// `in_place` and `copied` yield so many bytes, `read` looks at them.
class Values final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    if (activation.interface() == "read") {
      const std::span<const std::uint8_t> bytes = activation.input("t")->tensor.u8();
      activation.yield("v", make_number(bytes.front() + bytes.back()));
      return {};
    }
    const std::int64_t size = activation.input("n")->number;
    if (activation.input("copies")->number != 0) {
      PayloadRef& kept = kept_[size];
      if (!kept) {
        Tensor tensor = Tensor::zeros(Dtype::u8, {size}).value();
        std::ranges::fill(tensor.u8(), std::uint8_t{1});
        kept = make_tensor(std::move(tensor));
      }
      activation.yield("t", kept);
      return {};
    }
    Result<Tensor> tensor = activation.make_output("t", Dtype::u8, {size});
    if (!tensor.ok()) return tensor.error();
    tensor->u8().front() = tensor->u8().back() = 1;
    activation.yield("t", make_tensor(std::move(tensor).value()));
    return {};
  }

 private:
  std::map<std::int64_t, PayloadRef> kept_;
};

constexpr const char* workflow = R"(
sluice: 1
workflow: values
inputs: { n: number, copies: number }
roles: { makes: { plugin: values }, reads: { plugin: values } }
nodes:
  make: { run: makes.make, inputs: [ { n: inputs.n, copies: inputs.copies } ], outputs: [t] }
  read: { run: reads.read, inputs: [ { t: make.t } ], outputs: [v] }
outputs: { out: read.v }
)";

class Machine {
 public:
  Machine(const std::string& folder, std::uint32_t self) {
    Plugin plugin;
    plugin.declaration.name = "values";
    plugin.declaration.any_ports = true;
    plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
      return RoleInstance(std::unique_ptr<Role>(std::make_unique<Values>()));
    };
    catalog_.add(std::move(plugin));
    loaded_ = load_workflow("values.yaml", workflow);
    check(loaded_.spec, catalog_.declarations(), loaded_.diagnostics);
    plan_ = compile(loaded_.spec, catalog_.declarations(), loaded_.diagnostics);
    for (const Diagnostic& d : loaded_.diagnostics) std::puts(d.message.c_str());
    NodeOptions options;
    options.machines = {"here", "there"};
    options.self = self;
    options.placed = {{{0}, {1}}};
    options.connect = [folder](Origin life) {
      ZmqOptions zmq;
      zmq.self = life;
      zmq.bind = "ipc://" + folder + "/" + std::to_string(life.machine);
      const std::uint32_t other = 1 - life.machine;
      zmq.peers = {{other, "ipc://" + folder + "/" + std::to_string(other), ""}};
      zmq.cluster = "bench";
      return make_zmq_transport(std::move(zmq));
    };
    const std::vector<Graph> graphs{{&loaded_.spec, &plan_}};
    auto node = Node::create(graphs, catalog_, std::move(options));
    if (!node.ok()) fail(node.error().message);
    node_ = std::move(node).value();
    if (const auto there = node_->wait_for_members(std::chrono::seconds(20)); !there.ok())
      fail(there.error().message);
  }
  Node& node() { return *node_; }
  LentCounts lent() const {
    const auto link = node_->status().machines.at(1).link;
    return link ? link->lent : LentCounts{};
  }
  /// Seconds of a call.
  double call(std::int64_t size, bool copies) {
    std::int64_t sum = 0;
    const auto start = Clock::now();
    const CallOutcome outcome = node_->runner(0).call(
        {.session = "s", .inputs = {{"n", make_number(size)}, {"copies", make_number(copies)}}},
        [&](std::string_view, const PayloadRef& value) { sum = value->number; });
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    if (!outcome.ok) fail(outcome.error.message);
    if (sum != 2) fail("the bytes are not what was written");
    return took;
  }

 private:
  Catalog catalog_;
  LoadedWorkflow loaded_;
  Plan plan_;
  std::unique_ptr<Node> node_;
};

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

void compare(Machine& here, std::int64_t size, int calls) {
  std::vector<double> small, placed, copied, placed_ratios, copied_ratios;
  const LentCounts before = here.lent();
  for (int run = 0; run <= runs; ++run) {
    // The three take turns call by call, so that a neighbour on the machine disturbs all alike.
    std::vector<double> a, b, c;
    for (int i = 0; i < calls; ++i) {
      a.push_back(here.call(64, false));
      b.push_back(here.call(size, false));
      c.push_back(here.call(size, true));
    }
    if (run == 0) continue;  // pages that were never touched
    small.push_back(median(a));
    placed.push_back(median(b));
    copied.push_back(median(c));
    placed_ratios.push_back(placed.back() / small.back());
    copied_ratios.push_back(copied.back() / small.back());
  }
  const LentCounts after = here.lent();
  const auto [least, most] = std::ranges::minmax(placed_ratios);
  std::printf(
      "%8lld B  64 B %7.1f us  in place %7.1f us  copied once %8.1f us    in place over 64 B %5.2f "
      "(%.2f to %.2f)  copied over 64 B %6.2f    lent %llu, copied %llu, in messages %llu\n",
      static_cast<long long>(size), 1e6 * median(small), 1e6 * median(placed), 1e6 * median(copied),
      median(placed_ratios), least, most, median(copied_ratios),
      static_cast<unsigned long long>(after.in_place - before.in_place),
      static_cast<unsigned long long>(after.copied - before.copied),
      static_cast<unsigned long long>(after.in_message - before.in_message));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const int calls = count > 1 ? std::max(std::atoi(arguments[1]), 1) : 200;
  std::string folder = "/tmp/sluice-values-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  int end[2];
  if (pipe(end) != 0) return 1;
  const pid_t other = fork();
  if (other == 0) {
    close(end[1]);
    Machine there(folder, 1);
    char byte = 0;
    while (read(end[0], &byte, 1) > 0) continue;
    _exit(0);
  }
  close(end[0]);
  {
    Machine here(folder, 0);
    // Until the other has mapped the memory.
    while (here.lent().in_place == 0) static_cast<void>(here.call(1 << 20, false));
    for (const std::int64_t size : {64LL << 10, 1LL << 20, 16LL << 20}) compare(here, size, calls);
  }
  close(end[1]);
  waitpid(other, nullptr, 0);
  std::filesystem::remove_all(folder);
}
