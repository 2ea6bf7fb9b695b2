#include "engine/storage/page_window.h"

#include "engine/storage/kv_peers.h"

namespace sluice {

std::size_t page_window(std::size_t pools) {
  constexpr std::size_t answers = PageServer::replies_most * 128;  // without pages
  constexpr std::size_t questions =
      2 * PagePuller::questions_most * (pages::keys_most * sizeof(PageKey) + 64);
  constexpr std::size_t way = std::size_t{16} << 20U;  // what it says itself, and heads
  return pools * (PageServer::owed_most + KvPeers::tell_bytes_most + answers + questions) + way;
}

}  // namespace sluice
