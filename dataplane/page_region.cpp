#include "dataplane/page_region.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace sluice {

std::array<std::byte, PageRegion::stamp_bytes> stamp_of(const pages::PageHead& head) {
  pages::Bytes words;
  append_little_endian(head.incarnation, 8, words);
  append_little_endian(head.generation, 8, words);
  for (const std::uint64_t word : head.key.words) append_little_endian(word, 8, words);
  append_little_endian(head.length, 4, words);
  append_little_endian(head.crc32c, 4, words);
  std::array<std::byte, PageRegion::stamp_bytes> stamp{};
  std::ranges::copy(words, stamp.begin());
  return stamp;
}

bool is_whole(std::span<const std::byte> page, std::span<const std::byte> stamp,
              const pages::PageHead& head) {
  return page.size() == head.length && std::ranges::equal(stamp, stamp_of(head)) &&
         crc32c(page) == head.crc32c;
}

}  // namespace sluice
