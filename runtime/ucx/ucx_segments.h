// The shared segments of System V that this process has attached, as the system lists them.
//
// Thread: any; no state. Cost: a look at /proc/self/maps. Errors: none; what is not listed is not
// there.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::ucx {

struct Segment {
  std::uintptr_t begin = 0, end = 0;
  int number = -1;  // of the system's
};

std::vector<Segment> attached_segments();

/// The bytes are of one segment that is attached now and was not among those of `before`. It never
/// gets shorter, so all of them can be read until it is let go of.
bool is_newly_attached(const std::vector<Segment>& before, std::uintptr_t at, std::uint64_t size);

/// Those that this process has and the user's group may enter, as UCX makes them, are the user's
/// alone from now on.
void keep_group_out();

}  // namespace sluice::ucx
