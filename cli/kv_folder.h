// The options --kv-folder and --kv-bytes: pages in a folder, found again by the next process.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/generation.h"

namespace sluice::cli {

struct KvFolder {
  std::string path;  // empty: none
  std::string bytes = "4GiB";
};

void add_kv_folder(Command command, KvFolder& folder);
Result<KeptPool> make_pool(const KvShape& shape, std::size_t pages, const KvFolder& folder);
/// On standard error: where a prompt's tokens came from, and whether the folder works. Nothing
/// without a tier.
void tell_pages(const KvTier* tier, const KvFolder& folder, std::size_t prompt_tokens,
                const Generation& answer);
/// At the end, behind `tell_pages`: waits until the pages that are left are written, and says on
/// standard error where the folder does not take them. Nothing without a tier.
void tell_end(KvTier* tier, const KvFolder& folder);

}  // namespace sluice::cli
