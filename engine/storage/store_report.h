// What stands in a page store's folder, for a person: nothing is changed, and a process may go on
// writing there.
//
// Errors: as `StoreFolder::look`; a file that cannot be read is a finding. Units: bytes. Thread:
// any; no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataplane/page_key.h"

namespace sluice {

struct StoreReport {
  std::size_t segments = 0;
  std::size_t pages = 0;            // whole ones; without `verify`, by their ends alone
  std::uint64_t bytes = 0;          // of all files
  std::size_t unfinished = 0;       // records whose writing a crash, or the moment, cut off
  bool is_held = false;             // by a process that keeps its pages there now
  std::vector<std::string> broken;  // a line each: which file, which record, what is wrong
};

/// `verify`: reads all of it.
Result<StoreReport> report_store(const std::string& folder, bool verify);

/// A page that a folder has, by the ends of its record.
struct FolderPage {
  PageKey key, parent;  // parent: all zeros where it follows none
  std::uint64_t segment = 0, generation = 0;
  std::uint32_t slot = 0;
  /// Of its chain, itself included; 0: the chain's beginning is not here, so only who has that in
  /// memory finds it.
  std::uint32_t depth = 0;
};

struct FolderSegment {
  std::uint64_t number = 0, bytes = 0;
  std::int64_t written_s = 0;  // since it was last written, by the clock of files
  bool is_segment = false;     // of this folder; of another what follows is 0
  std::uint64_t layout = 0;    // told by its number alone
  std::uint32_t page_bytes = 0, room = 0, pages = 0, unfinished = 0, broken = 0;
};

struct FolderPages {
  std::vector<FolderSegment> segments;  // by number
  std::vector<FolderPage> pages;        // in the order of their writing
  std::size_t chains = 0;               // pages here that none follows, with their beginning here
  std::uint32_t longest = 0;            // chain, in pages
  std::size_t cut = 0;                  // pages whose chain's beginning is not here
  bool is_held = false;
};

/// Which pages a folder has. What they are of is in their keys, which nobody reads back.
Result<FolderPages> list_store(const std::string& folder);

}  // namespace sluice
