// Any bytes as one message, by each sender, who may lend: it is refused with a reason, or is
// written as the same bytes again. Fast, where the target `wire` plays whole calls.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "runtime/wire/codec.h"
#include "tests/fuzz/fuzzed_plan.h"

using namespace sluice;

namespace {

constexpr std::size_t checksum_bytes = 4;

void must(bool holds) {
  if (!holds) __builtin_trap();
}

void mend(std::span<std::byte> message) {
  if (message.size() <= checksum_bytes) return;
  const std::size_t end = message.size() - checksum_bytes;
  const std::uint32_t sum = crc32c(message.first(end));
  for (std::size_t i = 0; i < checksum_bytes; ++i)
    message[end + i] = static_cast<std::byte>(sum >> (8 * i));
}

/// Has lent whatever is of a block below 8 and not large, and knows each again.
class FuzzedLender final : public wire::Lender {
 public:
  Ref<Buffer> make(std::size_t) override { return {}; }
  bool reaches(std::uint32_t) const override { return true; }
  std::optional<wire::Handle> lend(Origin, const Ref<Buffer>& bytes) override {
    for (const auto& [handle, lent] : lent_)
      if (lent.get() == bytes.get()) return handle;
    return std::nullopt;
  }
  void take_back(Origin, const wire::Handle&) override {}
  Result<Ref<Buffer>> borrow(Origin, const wire::Handle& handle, std::size_t size) override {
    if (handle.block >= 8 || handle.generation == 0 || size > 4096)
      return Error{ErrorCode::corrupt, "nothing of that name was lent"};
    lent_.emplace_back(handle, Buffer::zeros(size));
    return lent_.back().second;
  }

 private:
  std::vector<std::pair<wire::Handle, Ref<Buffer>>> lent_;
};

class Reader {
 public:
  void read(std::span<const std::byte> bytes) {
    const bool by_any = read_by_any(bytes);
    for (std::uint32_t sender = 0; sender < testing::machines; ++sender) {
      FuzzedLender lender;
      wire::Lending lending{&lender, {sender, 1}};
      const Result<Message*> message = wire::decode(plan_, bytes, {{sender, 1}, contract_}, now,
                                                    limits_, pools_[sender], lending);
      if (!said(message)) continue;
      // Who may be anybody lends nothing.
      must(by_any || lending.bytes != 0);
      wire::Lending anew{&lender, {sender, 1}};
      wire::Bytes again;
      must(wire::encode(plan_, **message, now, limits_, again, anew).ok());
      must(std::ranges::equal(again, bytes) && anew.bytes == lending.bytes);
      pools_[sender].give(*message);
    }
    for (const Pools& pools : pools_)
      must(pools.messages.in_use() + pools.frames.in_use() + pools.scopes.in_use() == 0);
  }

 private:
  static bool said(const Result<Message*>& message) {
    must(message.ok() || !message.error().message.empty());
    return message.ok();
  }
  bool read_by_any(std::span<const std::byte> bytes) {
    Pools& pools = pools_[0];
    const Result<Message*> message = wire::decode(plan_, bytes, now, limits_, pools);
    if (!said(message)) return false;
    wire::Bytes again;
    must(wire::encode(plan_, **message, now, limits_, again).ok());
    must(std::ranges::equal(again, bytes));
    pools.give(*message);
    return true;
  }

  static constexpr Instant now{std::chrono::hours(1)};
  const Plan plan_ = testing::fuzzed_plan();
  const wire::Contract contract_{plan_, testing::placement_of(plan_), {}};
  const wire::Limits limits_{.bytes_max = std::size_t{1} << 20U, .machines = 16};
  std::array<Pools, testing::machines> pools_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, size_max);
  // Or nothing would get past the checksum.
  if (seed % 16 != 0) mend(std::as_writable_bytes(std::span(data, size)));
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Reader reader;
  reader.read(std::as_bytes(std::span(data, size)));
  return 0;
}
