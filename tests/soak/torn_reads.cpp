// Reads of pages of 64 KiB that are overwritten, given to others, cut or begun anew meanwhile: none
// may be taken for what was published under its key.
//
// Usage: torn_reads [--memory N] [--ucx N] [--sockets N] [--sealed N] [--mapped N]
//                   [--tcp N] [--ssd N --folder DIR] [--blind]
// So many reads of each kind: of a memory that is shared, of one that is read over UCX, over tcp,
// over tcp encrypted, of one that both map, in messages over tcp, of a disk; DIR is made and
// removed. Exit status 1: one was taken that is wrong, or none was refused, and then nothing was
// tried; with --blind, none that is wrong was taken. Ten million:
//   nice -n 15 torn_reads --memory 8500000 --tcp 1000000 --ssd 500000 --folder DIR
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "soak_pages.h"

using namespace sluice::soak;

namespace {

/// None: they are not what the usage says.
std::optional<Options> options_of(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--blind") {
      options.is_blind = true;
      continue;
    }
    if (i + 1 == words.size()) return std::nullopt;
    const std::string& name = words[i];
    const std::string& value = words[++i];
    std::uint64_t* const number = name == "--memory"    ? &options.memory
                                  : name == "--ucx"     ? &options.ucx
                                  : name == "--sockets" ? &options.sockets
                                  : name == "--sealed"  ? &options.sealed
                                  : name == "--mapped"  ? &options.mapped
                                  : name == "--tcp"     ? &options.tcp
                                  : name == "--ssd"     ? &options.ssd
                                                        : nullptr;
    if (name == "--folder")
      options.folder = value;
    else if (number == nullptr || value.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    else
      *number = std::strtoull(value.c_str(), nullptr, 10);
  }
  if (options.ssd > 0 && options.folder.empty()) return std::nullopt;
  return options;
}

bool report(const char* what, std::uint64_t wanted, const Tally& tally, const char* replaced,
            bool is_blind) {
  std::printf(
      "%-7s %llu reads: %llu refused, %llu wrong ones taken; %llu %s, %llu restarts; %.1f s, "
      "%.2f GB/s\n",
      what, static_cast<unsigned long long>(tally.reads),
      static_cast<unsigned long long>(tally.detected),
      static_cast<unsigned long long>(tally.undetected),
      static_cast<unsigned long long>(tally.replaced), replaced,
      static_cast<unsigned long long>(tally.restarts), tally.seconds,
      static_cast<double>(tally.reads * page_bytes) / tally.seconds / 1e9);
  std::fflush(stdout);
  if (is_blind) return tally.undetected > 0;
  return tally.reads >= wanted && tally.undetected == 0 && tally.detected > 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 6 && std::string(arguments[1]) == "--serve")
    return serve_tcp(arguments[2], arguments[3],
                     static_cast<std::uint32_t>(std::stoul(arguments[4])),
                     std::string(arguments[5]) == "blind");
  const std::optional<Options> given = options_of({arguments + 1, arguments + count});
  if (!given.has_value()) {
    std::fprintf(stderr,
                 "usage: torn_reads [--memory N] [--ucx N] [--sockets N] [--sealed N] "
                 "[--mapped N] [--tcp N] [--ssd N --folder DIR] [--blind]\n");
    return 2;
  }
  const Options& options = *given;
  if (options.ssd > 0 && std::filesystem::exists(options.folder)) {
    std::fprintf(stderr, "torn_reads: %s is there already: name a folder that is not\n",
                 options.folder.c_str());
    return 2;
  }
  bool is_right = true;
  const auto check = [&](const char* what, std::uint64_t wanted, auto&& read,
                         const char* replaced) {
    if (wanted > 0)
      is_right = report(what, wanted, read(options), replaced, options.is_blind) && is_right;
  };
  check("memory", options.memory, read_memory, "pages replaced");
  check("ucx", options.ucx, read_ucx, "pages replaced");
  check("sockets", options.sockets, read_sockets, "pages replaced");
  check("sealed", options.sealed, read_sealed, "pages replaced");
  check("mapped", options.mapped, read_mapped, "pages replaced");
  check("tcp", options.tcp, read_tcp, "pages replaced");
  check("ssd", options.ssd, read_ssd, "segments removed");
  return is_right ? 0 : 1;
}
