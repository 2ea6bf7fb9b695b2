// Runs a fuzz target without a fuzzer: its corpus, and changed copies of each file from one seed.
//
// Usage: replay FOLDER CHANGES. What libFuzzer found outside (run.sh) stands in FOLDER/found.pack:
// each input behind its length, four bytes, lowest first.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
/// Where a target has one: it repairs what a change has broken on the way to the code behind.
extern "C" [[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                             std::size_t size_max, unsigned seed);
/// The change itself is made before.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) {
  return size;
}

namespace {

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

/// A few changes: a byte, a piece lost, doubled or moved, a piece of another file.
std::string changed(std::string text, const std::vector<std::string>& corpus,
                    sluice::SplitMix64& random) {
  for (std::uint64_t n = random.next() % 5 + 1; n > 0 && !text.empty(); --n) {
    const std::size_t at = random.next() % text.size();
    const std::size_t length = random.next() % 24 + 1;
    switch (random.next() % 5) {
      case 0:
        text[at] = static_cast<char>(random.next());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(random.next() % text.size(), length));
        break;
      case 3:
        text.insert(at, 1, "{}[]:,&*!|>'\"%@`#-?\n\t 0a."[random.next() % 26]);
        break;
      default: {
        const std::string& other = corpus[random.next() % corpus.size()];
        if (!other.empty()) text.insert(at, other.substr(random.next() % other.size(), length));
      }
    }
  }
  if (LLVMFuzzerCustomMutator != nullptr)
    text.resize(LLVMFuzzerCustomMutator(reinterpret_cast<std::uint8_t*>(text.data()), text.size(),
                                        text.size(), static_cast<unsigned>(random.next())));
  return text;
}

void unpack(const std::string& pack, std::vector<std::string>& corpus) {
  for (std::size_t at = 0; at + 4 <= pack.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
      length |= std::size_t{static_cast<unsigned char>(pack[at + i])} << 8 * i;
    corpus.push_back(pack.substr(at + 4, length));
    at += 4 + length;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: replay FOLDER CHANGES\n");
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (path.extension() == ".pack")
      unpack(text, corpus);
    else
      corpus.push_back(std::move(text));
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no files\n", argv[1]);
    return 1;
  }
  sluice::SplitMix64 random(7);
  const long changes = std::atol(argv[2]);
  for (const std::string& text : corpus) run(text);
  for (long i = 0; i < changes; ++i)
    run(changed(corpus[random.next() % corpus.size()], corpus, random));
  std::printf("%zu inputs and %ld changed ones, nothing found\n", corpus.size(), changes);
  return 0;
}
