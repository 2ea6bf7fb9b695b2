// What stands in a page store's folder, for a person: nothing is changed, and a process may go on
// writing there.
//
// Errors: as `StoreFolder::look`; a file that cannot be read is a finding. Units: bytes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct StoreReport {
  std::size_t segments = 0;
  std::size_t pages = 0;       // whole ones; without `verify`, by their ends alone
  std::uint64_t bytes = 0;     // of all files
  std::size_t unfinished = 0;  // records whose writing a crash, or the moment, cut off
  bool is_held = false;        // by a process that keeps its pages there now
  std::vector<std::string> broken;  // a line each: which file, which record, what is wrong
};

/// `verify`: reads all of it.
Result<StoreReport> report_store(const std::string& folder, bool verify);

}  // namespace sluice
