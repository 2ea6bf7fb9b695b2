// `sluice pool status DIR`, `sluice pool verify DIR`: what stands in a folder of pages.
#include "cli/pool_store.h"

#include <cstdio>
#include <memory>
#include <string>

#include "engine/storage/store_report.h"

namespace sluice::cli {
namespace {

int report(const std::string& folder, bool verify) {
  const Result<StoreReport> made = report_store(folder, verify);
  if (!made.ok()) return fail(made.error().message);
  std::printf("pages      %zu in %zu segments, %llu bytes\n", made->pages, made->segments,
              static_cast<unsigned long long>(made->bytes));
  std::printf("unfinished %zu\n", made->unfinished);
  std::printf("broken     %zu\n", made->broken.size());
  std::printf("in use     %s\n", made->is_held ? "yes" : "no");
  for (const std::string& line : made->broken) std::printf("  %s\n", line.c_str());
  return made->broken.empty() ? 0 : 1;
}

}  // namespace

void add_pool_store(CLI::App& pool, Chosen& chosen) {
  for (const bool verify : {false, true}) {
    auto folder = std::make_shared<std::string>();
    CLI::App* command = pool.add_subcommand(
        verify ? "verify" : "status", verify ? "Read all pages of a folder; 1: some are broken"
                                             : "Tell what pages stand in a folder; 1: some are "
                                               "broken, as far as their ends tell");
    command->add_option("DIR", *folder, "A folder of --kv-folder, or of a paged_kv's ssd")
        ->required();
    command->callback(
        [&chosen, folder, verify] { chosen = [=] { return report(*folder, verify); }; });
  }
}

}  // namespace sluice::cli
