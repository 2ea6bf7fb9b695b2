#include "dataplane/page_region.h"

#include <algorithm>

#include "base/crc32c.h"

namespace sluice {

std::array<std::byte, PageRegion::stamp_bytes> stamp_of(const pages::PageHead& head) {
  const auto& key = head.key.words;
  const std::uint64_t words[] = {head.incarnation,
                                 head.generation,
                                 key[0],
                                 key[1],
                                 key[2],
                                 key[3],
                                 head.length | std::uint64_t{head.crc32c} << 32U};
  std::array<std::byte, PageRegion::stamp_bytes> stamp{};
  for (std::size_t i = 0; i < 8 * std::size(words); ++i)
    stamp[i] = static_cast<std::byte>(words[i / 8] >> i % 8 * 8);
  return stamp;
}

bool is_whole(std::span<const std::byte> page, std::span<const std::byte> stamp,
              const pages::PageHead& head, std::optional<std::uint32_t> sum) {
  return page.size() == head.length && std::ranges::equal(stamp, stamp_of(head)) &&
         (sum ? *sum : crc32c(page)) == head.crc32c;
}

}  // namespace sluice
