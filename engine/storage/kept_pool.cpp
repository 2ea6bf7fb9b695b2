#include "engine/storage/kept_pool.h"

#include "engine/storage/store_folder.h"

namespace sluice {

namespace {

/// The folder of this machine in what those of this computer may have in common.
Result<std::unique_ptr<PageStore>> open_store(const KvShape& shape, const PeerPort& port,
                                              const std::string& folder, std::uint64_t bytes_most) {
  PageStoreOptions options =
      KvTier::options_for(shape, StoreFolder::of_machine(folder, port.name()), bytes_most);
  options.secret = port.secret();
  const Result<void> fits = PageStore::check_size(folder, options.page_bytes, bytes_most);
  if (!fits.ok()) return fits.error();
  if (Result<void> made = StoreFolder::make_common(folder); !made.ok()) return made.error();
  return PageStore::open(options);
}

/// That others can read. Null: they read none.
Result<Ref<Buffer>> readable_memory(PeerPort& port, std::size_t size) {
  if (port.memory() == nullptr) return Ref<Buffer>();
  Result<Ref<Buffer>> memory = port.memory()->make(size);
  if (memory.ok() || memory.error().code != ErrorCode::unavailable) return memory;
  port.notice(port.self().machine,
              "gives pages as copies, and none is read where it stands: " + memory.error().message);
  return Ref<Buffer>();
}

}  // namespace

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
                                      const std::string& name, const std::string& folder,
                                      std::uint64_t bytes_most) {
  if (Result<void> travels = check_travels(shape); !travels.ok()) return travels.error();
  std::unique_ptr<PageStore> store;
  if (!folder.empty()) {
    Result<std::unique_ptr<PageStore>> opened = open_store(shape, port, folder, bytes_most);
    if (!opened.ok()) return opened.error();
    store = std::move(opened).value();
  }
  const PageRegion region{static_cast<std::uint32_t>(pages),
                          static_cast<std::uint32_t>(shape.page_bytes())};
  Result<Ref<Buffer>> memory = readable_memory(port, region.size());
  if (!memory.ok()) return memory.error();
  KeptPool made;
  made.secret = port.secret();
  made.pool = std::make_unique<KvPool>(shape, pages, made.secret, *memory);
  if (store != nullptr) made.tier = std::make_unique<KvTier>(*made.pool, std::move(store));
  made.peers = std::make_unique<KvPeers>(*made.pool, port, name, std::move(memory).value());
  if (!made.peers->is_open())
    return invalid_argument("another pool of this machine has the name '" + name +
                            "' among other machines");
  if (made.tier != nullptr) made.both = std::make_unique<FolderAndPeers>(*made.tier, *made.peers);
  return made;
}

}  // namespace sluice
