// What a pool of pages costs that several processes use: taking and giving back a page out of a
// lease, the questions of a forward, and handing a history to another process.
//
// Beside each: the page table in one process. Local work in processor time, for others may run
// here; round trips in elapsed time, there and back between two processes; medians of nine rounds.
#include "engine/storage/shared_pages.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "bench/usage.h"

namespace {

using namespace sluice;

constexpr std::uint32_t page_rows = 16;
constexpr std::uint32_t pages = 16'384;
constexpr std::uint64_t page_bytes = 8'192;
constexpr std::uint32_t run = 64;
constexpr attached::OfferToken token = 0x51ce;

template <typename Read, typename F>
double median_ns(double each, const Read& read, F&& work) {
  std::array<double, 9> rounds{};
  for (double& round : rounds) {
    const double begin = read();
    work();
    round = (read() - begin) / each;
  }
  std::ranges::sort(rounds);
  return rounds[4];
}
double processor_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}
double elapsed_ns() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

PageKey key_of(std::uint64_t n) { return {{spread(n), n, 1, 2}}; }

void take_and_give(PageTable& table, PageClient& client) {
  constexpr int times = 20'000;
  std::vector<CopyPage> copies;
  Sequence one = table.open({});
  const double alone = median_ns(times, processor_ns, [&] {
    for (int i = 0; i < times; ++i) {
      (void)table.reserve(one, page_rows, copies);
      table.truncate(one, 0);
    }
  });
  AttachedSequence other = std::move(client.open({}).value());
  const std::uint64_t trips = client.round_trips();
  const double leased = median_ns(times, processor_ns, [&] {
    for (int i = 0; i < times; ++i) {
      (void)client.reserve(other, page_rows, copies);
      (void)client.truncate(other, 0);
    }
  });
  std::printf("take and give back a page   %8.1f ns   in one process %8.1f ns   round trips %llu\n",
              leased, alone, static_cast<unsigned long long>(client.round_trips() - trips));
}

/// Of a sequence that grows by a row a forward: its pages are published as they are full.
void forwards(PageTable& table, PageClient& client) {
  constexpr std::uint32_t rows = 4'096;
  std::vector<CopyPage> copies;
  std::uint64_t next = 1;
  const double alone = median_ns(rows, elapsed_ns, [&] {
    Sequence one = table.open({});
    for (std::uint32_t row = 1; row <= rows; ++row) {
      (void)table.reserve(one, row, copies);
      table.wrote(one, row);
      if (row % page_rows == 0) (void)table.publish(one, key_of(next++));
    }
  });
  const std::uint64_t before = client.round_trips();
  const double shared = median_ns(rows, elapsed_ns, [&] {
    AttachedSequence one = std::move(client.open({}).value());
    for (std::uint32_t row = 1; row <= rows; ++row) {
      (void)client.reserve(one, row, copies);
      client.wrote(one, row);
      const PageKey key = key_of(next++);
      if (row % page_rows == 0) (void)client.publish(one, {&key, 1});
    }
  });
  std::printf(
      "pages of a step of a token  %8.1f ns   in one process %8.1f ns   round trips %.3f a step\n",
      shared, alone, static_cast<double>(client.round_trips() - before) / (9.0 * rows));
}

void round_trips(PageClient& client) {
  constexpr int times = 2'000;
  const double asked = median_ns(times, elapsed_ns, [&] {
    for (int i = 0; i < times; ++i) (void)client.ask({}, page_rows);
  });
  std::printf("a question and its answer   %8.1f us\n", asked / 1000);
}

/// A history of 64 pages, the last one half full, of which the other process reads all rows, and
/// then writes one more.
void hand_over(PageClient& client, PageClient& other) {
  constexpr std::uint32_t rows = 64 * page_rows - page_rows / 2;
  constexpr int times = 500;
  AttachedSequence said = std::move(client.open({}).value());
  std::vector<CopyPage> first, to_hand, to_write;
  (void)client.reserve(said, rows, first);
  client.wrote(said, rows);
  const double handed = median_ns(times, elapsed_ns, [&] {
    for (int i = 0; i < times; ++i) {
      (void)client.offer(said, token);
      auto taken = std::move(other.accept(token).value());
      (void)other.reserve(*taken, rows, to_hand);
      client.withdraw(token);
    }
  });
  (void)client.offer(said, token);
  auto taken = std::move(other.accept(token).value());
  (void)other.reserve(*taken, rows + 1, to_write);
  const auto bytes_of = [](const std::vector<CopyPage>& copies) {
    std::uint64_t copied = 0;
    for (const CopyPage& copy : copies) copied += copy.rows * page_bytes / page_rows;
    return static_cast<unsigned long long>(copied);
  };
  std::vector<std::byte> from(64 * page_bytes), to(64 * page_bytes);
  const double copy = median_ns(times, elapsed_ns, [&] {
    for (int i = 0; i < times; ++i) std::memcpy(to.data(), from.data(), to.size());
  });
  std::printf(
      "hand 64 pages to a process  %8.1f us   copying them   %8.1f us   bytes copied %llu, to "
      "write on %llu\n",
      handed / 1000, copy / 1000, bytes_of(to_hand), bytes_of(to_write));
}

/// The same history itself, there and back, and each could write on in it.
void give_on(PageClient& client, PageClient& other) {
  constexpr std::uint32_t rows = 64 * page_rows - page_rows / 2;
  constexpr int times = 500;
  constexpr attached::OfferToken number = token + 1;  // the other one is offered still
  AttachedSequence said = std::move(client.open({}).value());
  std::vector<CopyPage> copies;
  (void)client.reserve(said, rows, copies);
  client.wrote(said, rows);
  const auto give = [&](PageClient& from, PageClient& to, AttachedSequence& sequence) {
    (void)from.give(sequence, number, {});
    auto taken = std::move(to.accept(number).value());
    from.withdraw(number);
    (void)to.reserve(*taken, rows + 1, copies);
    return std::move(*taken);
  };
  const double given = median_ns(2 * times, elapsed_ns, [&] {
    for (int i = 0; i < times; ++i) {
      AttachedSequence there = give(client, other, said);
      said = give(other, client, there);
    }
  });
  std::printf("give 64 pages to a process  %8.1f us   rows copied, also to write on %zu\n",
              given / 1000, copies.size());
}

/// In a process of its own, which has two parts of it.
int measure(AttachedPages one, AttachedPages two) {
  PageClient client(*one.port, page_rows, run), other(*two.port, page_rows, run);
  PageTable table(pages, page_rows,
                  std::move(make_eviction(eviction_names().front(), {pages, 2 * pages}).value()));
  take_and_give(table, client);
  forwards(table, client);
  round_trips(client);
  hand_over(client, other);
  give_on(client, other);
  std::fflush(stdout);
  return 0;
}

int measure(SharedPages& shared) {
  auto first = shared.connect("bench"), second = shared.connect("another");
  if (!first.ok() || !second.ok()) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    auto one = AttachedPages::attach(std::move(first).value());
    auto two = AttachedPages::attach(std::move(second).value());
    ::_exit(one.ok() && two.ok() ? measure(std::move(one).value(), std::move(two).value()) : 1);
  }
  int status = 1;
  (void)::waitpid(child, &status, 0);
  for (const std::string& why : shared.report().refused) std::fprintf(stderr, "%s\n", why.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = usage_status(
          argc, argv, "usage: bench_shared_pages    page operations of processes over one pool"))
    return *status;
  auto shared = SharedPages::make({pages, page_rows, page_bytes, {}});
  if (!shared.ok()) return std::fprintf(stderr, "%s\n", shared.error().message.c_str()), 1;
  return measure(**shared);
}
