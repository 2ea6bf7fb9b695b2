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
  made.pool = std::make_unique<KvPool>(shape, pages, (*store)->secret());
  made.tier = std::make_unique<KvTier>(*made.pool, std::move(store).value());
  return made;
}

KeptPool KeptPool::make_among(const KvShape& shape, std::size_t pages, PeerPort& port,
                              const std::string& name) {
  KeptPool made;
  made.pool = std::make_unique<KvPool>(shape, pages, port.secret());
  made.peers = std::make_unique<KvPeers>(*made.pool, port, name);
  return made;
}

}  // namespace sluice
