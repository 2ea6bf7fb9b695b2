#include "cli/kv_folder.h"

#include <algorithm>
#include <cstdio>

#include "base/byte_size.h"
#include "base/count_text.h"

namespace sluice::cli {

void add_kv_folder(Command command, KvFolder& folder) {
  command.add_option("--kv-folder", folder.path,
                     "keep keys and values there too: what was said is not computed again, by "
                     "later processes either");
  command.add_option("--kv-bytes", folder.bytes, "that --kv-folder may grow to: 4GiB, 512MiB")
      .needs("--kv-folder")
      .check(
          [](const std::string& text) {
            return parse_byte_size(text).has_value()
                       ? std::string()
                       : "'" + text + "' is no size: a whole number and KiB, MiB, GiB or TiB";
          },
          "SIZE")
      .shown_default(folder.bytes);
}

Result<KeptPool> make_pool(const KvShape& shape, std::size_t pages, const KvFolder& folder) {
  Result<KeptPool> made =
      KeptPool::make(shape, pages, folder.path, parse_byte_size(folder.bytes).value_or(0));
  if (made.ok()) return made;
  return Error{made.error().code, "--kv-folder " + made.error().message};
}

void tell_pages(const KvTier* tier, const KvFolder& folder, std::size_t prompt_tokens,
                const Generation& answer) {
  if (tier == nullptr) return;
  // What was read back may have been given up again before it could be used.
  const std::size_t read_back = std::min(answer.tokens_read_back, answer.tokens_kept);
  std::fprintf(stderr, "pages      %s: %zu from memory, %zu from the folder %s, %zu computed\n",
               count_text(prompt_tokens, "token").c_str(), answer.tokens_kept - read_back,
               read_back, folder.path.c_str(),
               prompt_tokens - std::min(answer.tokens_kept, prompt_tokens));
  if (const std::uint64_t broken = tier->store().counts().broken; broken > 0)
    std::fprintf(stderr,
                 "%s: %s read other than written, so computed anew; `sluice pool verify %s` says "
                 "where\n",
                 folder.path.c_str(), count_text(broken, "page").c_str(), folder.path.c_str());
  const StoreHealth& health = tier->store().health();
  if (!health.works())
    std::fprintf(stderr, "%s is not used for a while: %s\n", folder.path.c_str(),
                 health.reason().c_str());
}

void tell_end(KvTier* tier, const KvFolder& folder) {
  if (tier == nullptr || !tier->store().health().works()) return;  // `tell_pages` has said why
  tier->flush();
  const StoreHealth& health = tier->store().health();
  if (!health.works())
    std::fprintf(stderr, "%s lacks pages that were to be kept: %s\n", folder.path.c_str(),
                 health.reason().c_str());
}

}  // namespace sluice::cli
