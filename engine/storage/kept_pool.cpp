#include "engine/storage/kept_pool.h"

namespace sluice {

Result<KeptPool> KeptPool::make(const KvShape& shape, std::size_t pages, const std::string& folder,
                                std::uint64_t bytes_most) {
  KeptPool made;
  if (folder.empty()) {
    made.pool = std::make_unique<KvPool>(shape, pages);
    return made;
  }
  auto store = PageStore::open(KvTier::options_for(shape, folder, bytes_most));
  if (!store.ok()) return store.error();
  made.secret = (*store)->secret();
  made.pool = std::make_unique<KvPool>(shape, pages, made.secret);
  made.tier = std::make_unique<KvTier>(*made.pool, std::move(store).value());
  return made;
}

Result<void> KeptPool::check_travels(const KvShape& shape) {
  if (shape.page_bytes() <= pages::page_bytes_most) return {};
  return invalid_argument("a page of " + std::to_string(shape.page_tokens) + " tokens has " +
                          std::to_string(shape.page_bytes()) +
                          " bytes, and machines exchange pages of at most " +
                          std::to_string(pages::page_bytes_most) + ": give it fewer `page_tokens`");
}

Result<KeptPool> KeptPool::make_among(const KvShape& shape, std::size_t pages, PeerPort& port,
                                      const std::string& name) {
  if (Result<void> travels = check_travels(shape); !travels.ok()) return travels.error();
  const PageRegion region{static_cast<std::uint32_t>(pages),
                          static_cast<std::uint32_t>(shape.page_bytes())};
  Ref<Buffer> memory;
  if (port.memory() != nullptr) {
    Result<Ref<Buffer>> readable = port.memory()->make(region.size());
    if (readable.ok())
      memory = std::move(readable).value();
    else if (readable.error().code == ErrorCode::unavailable)
      port.notice(port.self().machine, "gives pages as copies, and none is read where it stands: " +
                                           readable.error().message);
    else
      return readable.error();
  }
  KeptPool made;
  made.secret = port.secret();
  made.pool = std::make_unique<KvPool>(shape, pages, made.secret, memory);
  made.peers = std::make_unique<KvPeers>(*made.pool, port, name, std::move(memory));
  if (!made.peers->is_open())
    return invalid_argument("another pool of this machine has the name '" + name +
                            "' among other machines");
  return made;
}

}  // namespace sluice
