#include "dataplane/eviction.h"

#include <array>

namespace sluice {
namespace {

using Make = std::unique_ptr<EvictionPolicy> (*)(PoolSize);

constexpr std::array<std::string_view, 9> names = {
    "chosen", "learned", "lru", "lfu-da", "s3-fifo", "sieve", "arc", "w-tinylfu", "temperatures"};
constexpr std::array<Make, 9> makers = {make_chosen, make_learned,   make_lru,
                                        make_lfu_da, make_s3_fifo,   make_sieve,
                                        make_arc,    make_w_tinylfu, make_four_temperatures};

}  // namespace

std::span<const std::string_view> eviction_names() { return names; }

Result<std::unique_ptr<EvictionPolicy>> make_eviction(std::string_view name, PoolSize size) {
  SLUICE_CHECK(size.capacity > 0 && size.slots >= size.capacity);
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return makers[i](size);
    all += (i ? ", " : "") + std::string(names[i]);
  }
  return invalid_argument("no eviction policy is named \"" + std::string(name) + "\"; there are " +
                          all);
}

}  // namespace sluice
