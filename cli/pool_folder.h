// What `sluice pool` shows of a folder of pages. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/storage/store_report.h"

namespace sluice::cli {

struct FolderSnapshot {
  double seconds = 0;  // of a clock that only rises
  StoreReport report;
};

/// `before`: an earlier one, for what has happened by the second; null: there is none.
std::string folder_text(const FolderSnapshot& now, const FolderSnapshot* before);
nlohmann::ordered_json folder_json(const std::string& folder, const FolderSnapshot& now,
                                   const FolderSnapshot* before);

/// `keys`: a line for each page too.
std::string folder_pages_text(const FolderPages& found, bool keys);
nlohmann::ordered_json folder_pages_json(const FolderPages& found);

}  // namespace sluice::cli
