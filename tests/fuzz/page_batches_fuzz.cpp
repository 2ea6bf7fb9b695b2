// Any bytes as the batches of a process that is attached to a page table: what is taken is written
// as the same bytes again, the table holds, and what another process has stays as it is.
//
// The input is frames: two bytes of length, the lowest first, then a batch.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "dataplane/page_client.h"
#include "dataplane/page_manager.h"

using namespace sluice;

namespace {

constexpr std::uint32_t pages = 32, rows = 4;

void must(bool holds) {
  if (!holds) __builtin_trap();
}

/// The first that may go.
class First final : public EvictionPolicy {
 public:
  void visit(const Visit& visit) override {
    for (const VisitedBlock& block : visit.path) is_there_[block.slot] = true;
  }
  Slot victim(Held held) override {
    for (Slot slot = 0; slot < pages; ++slot)
      if (held[slot] == 0 && is_there_[slot]) {
        is_there_[slot] = false;
        return slot;
      }
    return no_slot;
  }
  void removed(Slot slot) override { is_there_[slot] = false; }

 private:
  std::array<bool, pages> is_there_{};
};

/// Of a process in this one.
class Direct final : public PageManagerPort {
 public:
  Direct(PageManager& manager, PageClientId id) : manager_(manager), id_(id) {}
  Result<attached::Answer> ask(std::span<const attached::Request> batch) override {
    return manager_.handle(id_, batch);
  }
  Result<void> tell(std::span<const attached::Request> batch) override {
    must(manager_.handle(id_, batch).ok());
    return {};
  }

 private:
  PageManager& manager_;
  const PageClientId id_;
};

/// Whether its process is attached still.
bool takes(PageManager& manager, std::span<const std::byte> bytes) {
  const auto batch = attached::decode_batch(bytes);
  if (!batch.ok()) {
    must(batch.error().code == ErrorCode::corrupt && !batch.error().message.empty());
    return false;
  }
  must(std::ranges::equal(attached::encode(*batch), bytes));
  const auto answer = manager.handle(2, *batch);
  if (!answer.ok()) {
    must(answer.error().code == ErrorCode::corrupt && manager.held(2).pages == 0);
    return false;
  }
  const auto said = attached::encode(*answer);
  must(attached::decode_answer(said).ok());
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  PageTable table(pages, rows, std::make_unique<First>());
  PageManager manager(table, rows);
  must(manager.attach(1).ok() && manager.attach(2).ok());
  Direct port(manager, 1);
  PageClient client(port, rows, 2);
  AttachedSequence mine = std::move(client.open({}).value());
  std::vector<CopyPage> copies;
  must(client.reserve(mine, 9, copies).ok());
  client.wrote(mine, 9);
  const PageKey key{{5, 5, 5, 5}};
  must(client.publish(mine, {&key, 1}).value() == 1);
  must(client.offer(mine, 3).ok());
  const std::vector<Page> before(mine.pages().begin(), mine.pages().end());
  const std::uint64_t generation = table.generation(before[2]);

  std::span<const std::byte> left = std::as_bytes(std::span(data, size));
  while (left.size() >= 2) {
    const std::size_t length = std::min<std::size_t>(little_endian(left.first(2)), left.size() - 2);
    if (!takes(manager, left.subspan(2, length))) break;
    left = left.subspan(2 + length);
  }
  for (const Page page : before) must(table.references(page) > 0);
  must(table.generation(before[2]) == generation && table.key(before[0]) == key);
  manager.detach(2);
  client.flush();
  must(table.free_pages() + table.cached_pages() + manager.held(1).pages == pages);
  must(client.reserve(mine, 10, copies).ok());
  client.wrote(mine, 10);
  return 0;
}
