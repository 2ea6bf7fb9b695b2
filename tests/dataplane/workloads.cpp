#include "tests/dataplane/workloads.h"

#include <array>

#include "tests/dataplane/maker.h"

namespace sluice {
namespace {

using Requests = std::vector<TraceRequest>;

/// One conversation: each turn repeats the path, less its last, partly filled block, and adds to
/// it.
void chat(Maker& maker, double at, std::vector<std::uint64_t> path, double goes_on, double think) {
  extend(path, maker.fresh(1 + maker.below(12)));
  maker.add(at, path);
  while (maker.random.uniform() < goes_on) {
    at += 5 + maker.wait(think);
    path.pop_back();
    extend(path, maker.fresh(1 + maker.below(4)));
    maker.add(at, path);
  }
}

Requests chats(std::uint64_t seed) {
  Maker maker(seed);
  for (double at = 0; at < 1500; at += maker.wait(0.5)) chat(maker, at, {}, 0.6, 60);
  return maker.sorted();
}

Requests agents(std::uint64_t seed) {
  Maker maker(seed);
  std::vector<std::vector<std::uint64_t>> prompts;
  for (int i = 0; i < 60; ++i) prompts.push_back(maker.fresh(4 + maker.below(24)));
  for (double at = 0; at < 1200; at += maker.wait(0.5))
    chat(maker, at, prompts[maker.popular(prompts.size())], 0.8, 8);
  return maker.sorted();
}

/// Popular prompts with, now and then, many long documents that are read once.
Requests scans(std::uint64_t seed) {
  Maker maker(seed);
  std::vector<std::vector<std::uint64_t>> prompts;
  for (int i = 0; i < 100; ++i) prompts.push_back(maker.fresh(3 + maker.below(10)));
  for (double at = 0; at < 2000; at += maker.wait(0.7)) {
    std::vector<std::uint64_t> path = prompts[maker.popular(prompts.size())];
    extend(path, maker.fresh(1));
    maker.add(at, path);
    if (static_cast<int>(at / 100) % 3 == 1) maker.add(at, maker.fresh(40));
  }
  return maker.sorted();
}

/// More paths than fit, visited in turn.
Requests loops(std::uint64_t seed) {
  Maker maker(seed);
  std::vector<std::vector<std::uint64_t>> paths;
  for (int i = 0; i < 300; ++i) paths.push_back(maker.fresh(8 + maker.below(4)));
  for (int i = 0; i < 4000; ++i) maker.add(i * 0.4, paths[i % paths.size()]);
  return maker.sorted();
}

/// Popular prompts that are others every few minutes.
Requests shifts(std::uint64_t seed) {
  Maker maker(seed);
  std::vector<std::vector<std::uint64_t>> prompts;
  for (int i = 0; i < 800; ++i) prompts.push_back(maker.fresh(4 + maker.below(12)));
  for (double at = 0; at < 2000; at += maker.wait(0.6)) {
    const auto epoch = static_cast<std::uint64_t>(at / 300);
    std::vector<std::uint64_t> path = prompts[(maker.popular(400) + 97 * epoch) % prompts.size()];
    extend(path, maker.fresh(2));
    maker.add(at, path);
  }
  return maker.sorted();
}

/// Blocks without any habit: uniform at random, no chains.
Requests noise(std::uint64_t seed) {
  Maker maker(seed);
  for (int i = 0; i < 20000; ++i) maker.add(i * 0.1, {1 + maker.below(4000)});
  return maker.sorted();
}

constexpr std::array<Workload, 9> all = {{{"chats", chats},
                                          {"agents", agents},
                                          {"scans", scans},
                                          {"loops", loops},
                                          {"shifts", shifts},
                                          {"noise", noise},
                                          {"chat service", chat_service},
                                          {"tool service", tool_service},
                                          {"document service", document_service}}};

}  // namespace

std::span<const Workload> workloads() { return all; }

}  // namespace sluice
