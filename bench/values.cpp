// What a large value costs from role to role over two processes of one computer, beside 64 bytes.
//
// Through `Node`, as users run it: a call starts a role here that yields a tensor, a role in
// another process reads its first and its last byte and yields a number, which comes back to the
// caller. in place: the tensor is one of `make_output`, of which the role writes those two bytes.
// copied: it stands in the role's own memory, so it is copied once into memory that both processes
// have. What roles write and read beside is in neither figure. Runs take turns; medians of calls,
// and of each run's ratio to 64 bytes. `bench_values [CALLS]`: as many in each run, 200 unless
// said.
//
// `bench_values --plain` prints for a program (bench/link_peers.py), a line a size and way: the
// median of calls, and the frames a second of one call that yields many, of which the other
// process reads each and answers the last.
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

#include "bench/machine.h"
#include "bench/usage.h"

using namespace sluice;
using bench::fail;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int runs = 9;

/// `make` yields so many bytes so many times, in place or copied; `read` looks at them and answers
/// the last, whose first byte is 2.
class Values final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    if (activation.interface() == "read") {
      const std::span<const std::uint8_t> bytes = activation.input("t")->tensor.u8();
      const int sum = bytes.front() + bytes.back();
      if (bytes.front() == 2) activation.yield("v", make_number(sum));
      return {};
    }
    const std::int64_t size = activation.input("n")->number;
    const bool copies = activation.input("copies")->number != 0;
    for (std::int64_t left = activation.input("frames")->number; left > 0; --left) {
      if (copies) {
        activation.yield("t", kept(size, left == 1));
        continue;
      }
      Result<Tensor> tensor = activation.make_output("t", Dtype::u8, {size});
      if (!tensor.ok()) return tensor.error();
      tensor->u8().front() = left == 1 ? 2 : 1;
      tensor->u8().back() = 1;
      activation.yield("t", make_tensor(std::move(tensor).value()));
    }
    return {};
  }

 private:
  PayloadRef kept(std::int64_t size, bool last) {
    PayloadRef& kept = kept_[{size, last}];
    if (kept) return kept;
    Tensor tensor = Tensor::zeros(Dtype::u8, {size}).value();
    std::ranges::fill(tensor.u8(), std::uint8_t{1});
    if (last) tensor.u8().front() = 2;
    return kept = make_tensor(std::move(tensor));
  }

  std::map<std::pair<std::int64_t, bool>, PayloadRef> kept_;
};

constexpr const char* workflow = R"(
sluice: 1
workflow: values
inputs: { n: number, copies: number, frames: number }
roles: { makes: { plugin: values }, reads: { plugin: values } }
nodes:
  make:
    run: makes.make
    inputs: [ { n: inputs.n, copies: inputs.copies, frames: inputs.frames } ]
    outputs: [t]
  read: { run: reads.read, inputs: [ { t: make.t } ], outputs: [v] }
outputs: { out: read.v }
)";

class Machine : public bench::Machine {
 public:
  Machine(const std::string& folder, std::uint32_t self)
      : bench::Machine(folder, self, bench::plugin_of<Values>("values"), workflow, {{0}, {1}}, 2) {}
  LentCounts lent() const {
    const auto link = node().status().machines.at(1).link;
    return link ? link->lent : LentCounts{};
  }
  /// Seconds of a call whose first role yields so many frames.
  double call(std::int64_t size, bool copies, std::int64_t frames = 1) {
    std::int64_t sum = 0;
    const auto start = Clock::now();
    const CallOutcome outcome = node().runner(0).call(
        {.session = "s",
         .inputs = {{"n", make_number(size)},
                    {"copies", make_number(copies)},
                    {"frames", make_number(frames)}}},
        [&](std::string_view, const PayloadRef& value) { sum = value->number; });
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    if (!outcome.ok) fail(outcome.error.message);
    if (sum != 3) fail("the bytes are not what was written");
    return took;
  }
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

/// Once to warm up, then the median of the calls and one call of many frames.
void plain(Machine& here, std::int64_t size, int calls, int frames) {
  for (const bool copies : {false, true}) {
    std::vector<double> trips;
    static_cast<void>(here.call(size, copies, std::max(frames / 10, 10)));
    const LentCounts before = here.lent();
    for (int i = 0; i < calls; ++i) trips.push_back(here.call(size, copies));
    const double rate = frames / here.call(size, copies, frames);
    const LentCounts after = here.lent();
    std::printf("values %s %lld per_second %.0f us %.2f copied %llu in_message %llu\n",
                copies ? "copied" : "place", static_cast<long long>(size), rate,
                1e6 * median(trips), static_cast<unsigned long long>(after.copied - before.copied),
                static_cast<unsigned long long>(after.in_message - before.in_message));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (const auto status =
          usage_status(count, arguments, "usage: bench_values [CALLS | --plain]", {"--plain"}))
    return *status;
  const bool for_program = count > 1 && std::string(arguments[1]) == "--plain";
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
    if (for_program) {
      plain(here, 64, 2000, 50'000);
      plain(here, 64LL << 10, 1000, 5000);
      plain(here, 1LL << 20, 300, 1000);
      plain(here, 16LL << 20, 60, 120);
    } else {
      for (const std::int64_t size : {64LL << 10, 1LL << 20, 16LL << 20})
        compare(here, size, calls);
    }
  }
  close(end[1]);
  waitpid(other, nullptr, 0);
  std::filesystem::remove_all(folder);
}
