// What the page table costs: taking and giving back a page, finding a prefix,
// naming a page, and naming and finding the pages of a prompt's tokens.
//
// Beside each: the same with standard structures, or the bound that hashing
// sets. Processor time, for others may run here; the median of nine rounds.
#include "dataplane/page_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <list>
#include <string>
#include <unordered_map>

#include "base/sha256.h"
#include "bench/usage.h"
#include "engine/layers/kv_content.h"

namespace {

using namespace sluice;

constexpr std::uint32_t page_rows = 16;
constexpr std::uint32_t pages = 65536;

template <typename F>
double median_ns(double each, F&& run) {
  std::array<double, 9> rounds;
  for (double& round : rounds) {
    const std::clock_t begin = std::clock();
    run();
    round = 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / each;
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[4];
}

std::uint64_t sink = 0;

struct FirstWord {
  std::size_t operator()(const PageKey& key) const { return key.words[0]; }
};

void take_and_give(PageTable& table) {
  constexpr int times = 20000;
  constexpr std::uint32_t many = 64;
  std::vector<CopyPage> copies;
  Sequence sequence = table.open({});
  const double ours = median_ns(times * many, [&] {
    for (int i = 0; i < times; ++i) {
      if (!table.reserve(sequence, many * page_rows, copies)) ++sink;
      table.truncate(sequence, 0);
    }
  });
  std::list<std::uint32_t> free(pages), used;
  const double lists = median_ns(times * many, [&] {
    for (int i = 0; i < times; ++i) {
      for (std::uint32_t n = 0; n < many; ++n) used.splice(used.end(), free, free.begin());
      free.splice(free.end(), used);
    }
  });
  std::printf(
      "take and give back a page   %7.1f ns   std::list spliced %7.1f "
      "ns   ratio %.2f\n",
      ours, lists, ours / lists);
}

void find_prefixes(PageTable& table) {
  constexpr std::uint32_t chains = 256, length = 128;
  const PageKeys keys(PageKeys::Secret{1, 2, 3});
  std::vector<std::vector<PageKey>> all(chains);
  std::unordered_map<PageKey, std::uint32_t, FirstWord> map;
  std::vector<CopyPage> copies;
  for (std::uint32_t chain = 0; chain < chains; ++chain) {
    PageKey key = keys.root({"bench", std::to_string(chain), "", ""});
    Sequence sequence = table.open({});
    if (!table.reserve(sequence, length * page_rows, copies)) return;
    table.wrote(sequence, length * page_rows);
    for (std::uint32_t i = 0; i < length; ++i) {
      all[chain].push_back(key = keys.next(key, std::to_string(i)));
      map[key] = i;
      if (!table.publish(sequence, key)) ++sink;
    }
  }
  constexpr int times = 20;
  const double ours = median_ns(times * chains * length, [&] {
    for (int i = 0; i < times; ++i)
      for (const auto& chain : all) sink += table.match(chain);
  });
  const double standard = median_ns(times * chains * length, [&] {
    for (int i = 0; i < times; ++i)
      for (const auto& chain : all)
        for (const PageKey& key : chain) sink += map.find(key)->second;
  });
  std::printf(
      "find a page of a prefix     %7.1f ns   std::unordered_map %6.1f "
      "ns   ratio %.2f   "
      "%.1f M blocks/s\n",
      ours, standard, ours / standard, 1000 / ours);
}

void name_pages() {
  const PageKeys keys(PageKeys::Secret{1, 2, 3});
  const std::string content(page_rows * 4, 'x');  // as `KvKeys` writes tokens
  const std::string message(4 + 32 + content.size(), 'x');
  constexpr int times = 20000;
  PageKey key;
  const double ours = median_ns(times, [&] {
    for (int i = 0; i < times; ++i) key = keys.next(key, content);
  });
  const double hash = median_ns(times, [&] {
    for (int i = 0; i < times; ++i) sink += sha256(message)[0];
  });
  sink += key.words[0];
  std::printf(
      "name a page of 16 tokens    %7.1f ns   one SHA-256 of it  %6.1f "
      "ns   ratio %.2f\n",
      ours, hash, ours / hash);
}

/// From the tokens of a prompt to how many of its pages are there: all.
void name_and_find(PageTable& table) {
  constexpr std::uint32_t prompts = 16, length = 128;
  const KvKeys keys(PageKeys::Secret{1, 2, 3}, "bench", page_rows);
  RowsOrigin origin;
  origin.model = "bench";
  std::vector<std::vector<std::int32_t>> all(prompts);
  std::vector<CopyPage> copies;
  std::vector<PageKey> named;
  for (std::uint32_t prompt = 0; prompt < prompts; ++prompt) {
    for (std::uint32_t i = 0; i < length * page_rows; ++i)
      all[prompt].push_back(static_cast<std::int32_t>(prompt * 100000 + i));
    named.clear();
    keys.append(origin, all[prompt], 0, length, *keys.root(origin, all[prompt]), named);
    Sequence sequence = table.open({});
    if (!table.reserve(sequence, length * page_rows, copies)) return;
    table.wrote(sequence, length * page_rows);
    for (const PageKey& key : named)
      if (!table.publish(sequence, key)) ++sink;
  }
  constexpr int times = 20;
  std::uint64_t found = 0;
  const double ours = median_ns(times * prompts * length, [&] {
    found = 0;
    for (int i = 0; i < times; ++i)
      for (const std::vector<std::int32_t>& tokens : all) {
        named.clear();
        keys.append(origin, tokens, 0, length, *keys.root(origin, tokens), named);
        found += table.match(named);
      }
  });
  if (found != times * prompts * length) std::printf("PAGES ARE MISSING\n");
  sink += found;
  std::printf("name and find a page        %7.1f ns   %5.1f M blocks/s (wanted: 5)\n", ours,
              1000 / ours);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = usage_status(argc, argv, "usage: bench_page_table")) return *status;
  PageTable table(pages, page_rows, make_lru({pages, 2 * pages}));
  take_and_give(table);
  find_prefixes(table);
  name_pages();
  name_and_find(table);
  return sink == 0 ? 1 : 0;
}
