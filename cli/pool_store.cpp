// `sluice pool pages DIR`, `sluice pool verify DIR`: what stands in a folder of pages.
#include "cli/pool_store.h"

#include <cstdio>
#include <memory>
#include <string>

#include "cli/pool_folder.h"

namespace sluice::cli {
namespace {

struct PagesCommand {
  std::string folder, format = "text";
  bool keys = false;
};

int verify(const PagesCommand& options) {
  const Result<StoreReport> made = report_store(options.folder, true);
  if (!made.ok()) return fail(made.error().message);
  const FolderSnapshot now{0, *made};
  if (options.format == "json")
    std::printf("%s\n", folder_json(options.folder, now, nullptr)
                            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
  else
    std::fputs(folder_text(now, nullptr).c_str(), stdout);
  return made->broken.empty() ? 0 : 1;
}

int pages(const PagesCommand& options) {
  const Result<FolderPages> found = list_store(options.folder);
  if (!found.ok()) return fail(found.error().message);
  if (options.format == "json")
    std::printf("%s\n", folder_pages_json(*found).dump().c_str());
  else
    std::fputs(folder_pages_text(*found, options.keys).c_str(), stdout);
  return 0;
}

}  // namespace

void add_pool_store(Command pool, Chosen& chosen) {
  auto options = std::make_shared<PagesCommand>();
  Command list = pool.add_subcommand("pages", "Tell which pages a folder has, by segment and key");
  list.add_option("DIR", options->folder, "A folder of --kv-folder, or of a paged_kv's ssd")
      .required();
  list.add_flag("--keys", options->keys, "A line for each page too");
  list.add_option("--format", options->format, "text or json, which has all keys")
      .one_of({"text", "json"});
  list.callback([&chosen, options] { chosen = [options] { return pages(*options); }; });

  auto checked = std::make_shared<PagesCommand>();
  Command command = pool.add_subcommand("verify", "Read all pages of a folder; 1: some are broken");
  command.add_option("DIR", checked->folder, "A folder of --kv-folder, or of a paged_kv's ssd")
      .required();
  command.add_option("--format", checked->format, "text or json, as of `pool status`")
      .one_of({"text", "json"});
  command.callback([&chosen, checked] { chosen = [checked] { return verify(*checked); }; });
}

}  // namespace sluice::cli
