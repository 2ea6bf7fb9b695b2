#include "cli/watch.h"

namespace sluice::cli {

namespace {

// To the upper left corner, and nothing is left of what stood below it.
constexpr const char* clear = "\x1b[H\x1b[2J";

}  // namespace

void watch(const Watch& watch, bool is_terminal) {
  do
    if (!watch.write((is_terminal ? clear : "") + watch.draw())) return;
  while (watch.wait());
}

}  // namespace sluice::cli
