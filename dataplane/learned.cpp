// Learned: the leaf of the prefix tree that promises the fewest uses for a page and second goes
// first.
//
// A block's class is how often it was used (in eight steps), whether it ended its path when it was
// used last, and its details: how much was new in that path, or its own pace. A bounded table
// remembers blocks that went, so that returns after eviction teach too. Leaves stand in one list
// for each class and idle time; the lists are ranked anew now and then. Source: ours; the rank is
// `reuse_times.h`.
#include <algorithm>
#include <array>
#include <bit>

#include "dataplane/key_table.h"
#include "dataplane/reuse_times.h"
#include "dataplane/slot_lists.h"

namespace sluice {
namespace {

constexpr std::uint32_t cells = reuse_classes * reuse_ages;

/// How much was new in a path: of itself, and as a multiple of the mean of all paths.
struct News {
  double part = 0, times_mean = 0;
};

/// What says most of a block beside its uses. Of one that was used once or twice: how much was new
/// in the path that used it last (a long text is asked about less often than a short question), and
/// which part of the path that was, by quarters (a first request, or one that goes on). Of another:
/// the mean time between its uses, in steps of four times.
std::uint32_t detail_of(std::uint32_t uses, News news, std::uint64_t pace_ms) {
  if (uses <= 2) {
    const double times = news.times_mean;
    const std::uint32_t step = times < 0.25 ? 0 : times < 1 ? 1 : times < 4 ? 2 : 3;
    return 4 * std::min(3U, static_cast<std::uint32_t>(4 * news.part)) + step;
  }
  const auto log = static_cast<std::uint32_t>(std::bit_width(pace_ms / 512));
  return std::min(7U, (log + 1) / 2);
}

std::uint32_t class_of(std::uint32_t uses, bool ends_path, std::uint32_t detail) {
  const auto log = static_cast<std::uint32_t>(std::bit_width(uses));
  const std::uint32_t step = uses <= 4 ? uses - 1 : std::min(7u, log + 1);
  return (2 * step + (ends_path ? 1 : 0)) * reuse_details + detail;
}

class Learned final : public EvictionPolicy {
 public:
  explicit Learned(PoolSize size)
      : blocks_(size.slots),
        leaves_(size.slots, cells),
        memory_(std::bit_ceil(std::max<std::uint64_t>(65536, 4ULL * size.capacity))) {
    for (std::uint32_t cell = 0; cell < cells; ++cell)
      if (is_reuse_class(cell / reuse_ages)) cell_at_[ranked_++] = cell;
    rank_cells();
  }

  void visit(const Visit& visit) override {
    now_ = std::max(now_, visit.now_ms);
    seen_ += visit.path.size();
    if (seen_ >= rank_next_) rank_cells();
    age_leaves();
    for (const VisitedBlock& at : visit.path) {  // fetched while the sweep computes
      __builtin_prefetch(&memory_of(at.key), 1);
      __builtin_prefetch(&blocks_[at.slot], 1);
    }
    sweep(16 * visit.path.size());
    look_at(visit.path);
    Slot parent = no_slot;
    for (std::size_t i = 0; i < visit.path.size(); ++i) {
      const VisitedBlock& at = visit.path[i];
      const bool ends_path = i + 1 == visit.path.size();
      if (!visit.is_use && !at.fresh) {
        parent = at.slot;
        continue;
      }
      Block& block = blocks_[at.slot];
      if (at.fresh) block = {.stamp = ++stamps_};
      if (leaves_.in_any(at.slot)) take_out(at.slot);
      remember(block, at.key, ends_path);
      block.last_ms = now_;
      link(at.slot, parent);
      if (block.children == 0) put_in(at.slot);
      parent = at.slot;
    }
  }

  Slot victim(Held held) override {
    const Slot slot = lowest(held);
    if (slot == no_slot) return no_slot;
    removed(slot);
    return slot;
  }

  void removed(Slot slot) override {
    Block& block = blocks_[slot];
    if (leaves_.in_any(slot)) take_out(slot);
    const Slot parent = block.parent;
    block.stamp = 0;  // its children, if it has any, are roots now
    if (is_linked(block)) unlink(parent);
  }

 private:
  struct Block {
    std::uint64_t stamp = 0;         // of its stay in the slot, never twice; 0: not resident
    std::uint64_t parent_stamp = 0;  // 0: a root
    std::uint64_t last_ms = 0;
    Slot parent = no_slot;
    std::uint32_t children = 0;
    std::uint32_t uses = 0;  // 0: not known but by the memory
    std::uint32_t kind = 0;
  };
  struct alignas(32) Memory {  // half a cache line, for the sweep reads all of them
    std::uint64_t key = 0;
    std::uint64_t last_ms = 0;
    std::uint32_t taught_ms = 0;  // idle time that was taught; none beyond 2^32 (49 days) is
    std::uint32_t pace_ms = 0;    // between uses, the later ones with more weight
    std::uint16_t uses = 0;       // 0: nothing remembered
    std::uint16_t kind = 0;
    float weight = 0;  // of what it teaches

    bool knows(std::uint64_t other) const { return uses > 0 && key == other; }
  };
  static_assert(sizeof(Memory) == 32);

  bool is_linked(const Block& block) const {
    return block.parent_stamp != 0 && blocks_[block.parent].stamp == block.parent_stamp;
  }
  void unlink(Slot parent) {
    if (--blocks_[parent].children == 0) put_in(parent);
  }
  void link(Slot slot, Slot parent) {
    Block& block = blocks_[slot];
    const bool linked = is_linked(block);
    if (linked && block.parent == parent) return;
    if (linked) unlink(block.parent);
    block.parent = parent;
    block.parent_stamp = parent == no_slot ? 0 : blocks_[parent].stamp;
    if (parent == no_slot) return;
    if (leaves_.in_any(parent)) take_out(parent);
    ++blocks_[parent].children;
  }

  void put_in(Slot slot) {
    const Block& block = blocks_[slot];
    const std::uint32_t cell = block.kind * reuse_ages + age_step(now_ - block.last_ms);
    const std::uint64_t due = due_of(block.last_ms, cell);
    const bool empty = leaves_.empty(cell);
    if (!empty && block.last_ms < blocks_[leaves_.back(cell)].last_ms)
      leaves_.push_back(cell, slot);
    else
      leaves_.push_front(cell, slot);
    due_[cell] = empty ? due : std::min(due_[cell], due);
    filled_[rank_of_[cell] / 64] |= 1ULL << rank_of_[cell] % 64;
  }
  void take_out(Slot slot) {
    const std::uint32_t cell = leaves_.list_of(slot);
    if (leaves_.back(cell) == slot) due_[cell] = 0;  // `age_leaves` looks at whoever is last now
    leaves_.remove(slot);
    if (leaves_.empty(cell)) filled_[rank_of_[cell] / 64] &= ~(1ULL << rank_of_[cell] % 64);
  }
  template <typename F>
  void for_filled(F&& visit_cell) {
    for (std::uint32_t word = 0; word < filled_.size(); ++word)
      for (std::uint64_t bits = filled_[word]; bits != 0; bits &= bits - 1)
        if (!visit_cell(cell_at_[64 * word + std::countr_zero(bits)])) return;
  }

  /// When a leaf of the list that was used at `last_ms` has to move on.
  static std::uint64_t due_of(std::uint64_t last_ms, std::uint32_t cell) {
    const std::uint64_t end = step_ends[cell % reuse_ages];
    return last_ms > ~0ULL - end ? ~0ULL : last_ms + end;
  }

  /// Leaves whose idle time has reached the next step move there.
  void age_leaves() {
    if (now_ < aged_ms_ + age_begin(1) / 2) return;
    aged_ms_ = now_;
    for_filled([&](std::uint32_t cell) {
      while (due_[cell] <= now_ && !leaves_.empty(cell)) {
        const Slot slot = leaves_.back(cell);
        due_[cell] = due_of(blocks_[slot].last_ms, cell);
        if (age_step(now_ - blocks_[slot].last_ms) <= cell % reuse_ages) break;
        take_out(slot);
        put_in(slot);
      }
      return true;
    });
  }

  Memory& memory_of(std::uint64_t key) { return memory_[spread(key) & (memory_.size() - 1)]; }

  /// How much of the path nobody remembers, and what its blocks weigh: they come back together or
  /// not at all, so a path is one observation that its blocks share.
  void look_at(std::span<const VisitedBlock> path) {
    double added = 0;
    for (const VisitedBlock& at : path) added += memory_of(at.key).knows(at.key) ? 0 : 1;
    paths_ = std::min(paths_ + 1, 1024.0);
    mean_added_ += (added - mean_added_) / paths_;
    const auto length = static_cast<double>(std::max<std::size_t>(path.size(), 1));
    mean_length_ += (length - mean_length_) / paths_;
    weight_ = static_cast<float>(mean_length_ / length);
    news_ = {added / length, added / std::max(mean_added_, 1e-9)};
  }
  /// The block of `key` is used: its class is that of all uses which it or the memory remembers.
  void remember(Block& block, std::uint64_t key, bool ends_path) {
    Memory& memory = memory_of(key);
    const bool known = memory.knows(key);
    if (memory.uses > 0) {
      teach_idle(memory);
      if (known) times_.returned(memory.kind, now_ - memory.last_ms, memory.weight);
    }
    const std::uint32_t before = known ? memory.uses : block.uses;
    const std::uint64_t idle = now_ - (known ? memory.last_ms : block.last_ms);
    std::uint64_t pace = std::min<std::uint64_t>(idle, 0xffffffffU);
    if (known && before > 1) pace = (3ULL * memory.pace_ms + pace) / 4;
    block.uses = std::min(before, 0xfffeu) + 1;
    block.kind = class_of(block.uses, ends_path, detail_of(block.uses, news_, pace));
    memory = {.key = key,
              .last_ms = now_,
              .pace_ms = static_cast<std::uint32_t>(pace),
              .uses = static_cast<std::uint16_t>(block.uses),
              .kind = static_cast<std::uint16_t>(block.kind),
              .weight = weight_};
  }
  void teach_idle(Memory& memory) {
    const std::uint64_t idle = std::min<std::uint64_t>(now_ - memory.last_ms, 0xffffffffU);
    times_.survived(memory.kind, memory.taught_ms, idle, memory.weight);
    memory.taught_ms = static_cast<std::uint32_t>(idle);
  }
  /// Blocks that do not come back teach too.
  void sweep(std::size_t count) {
    for (count = std::min(count, memory_.size()); count > 0; --count) {
      if (memory_[hand_].uses > 0) teach_idle(memory_[hand_]);
      hand_ = (hand_ + 1) & (memory_.size() - 1);
    }
  }

  void rank_cells() {
    rank_next_ = seen_ + std::min<std::uint64_t>(4096, 64 + seen_ / 8);
    times_.learn();
    std::array<std::uint64_t, cells> order;  // the rank's bits, which grow with it, and the cell
    // In the order of the last ranking, which is nearly the new one: it is sorted sooner.
    for (std::uint32_t i = 0; i < ranked_; ++i) {
      const std::uint32_t cell = cell_at_[i];
      const auto rank = static_cast<float>(times_.rank(cell / reuse_ages, cell % reuse_ages));
      order[i] = std::uint64_t{std::bit_cast<std::uint32_t>(rank)} << 32 | cell;
    }
    std::sort(order.begin(), order.begin() + ranked_);
    filled_.fill(0);
    for (std::uint32_t i = 0; i < ranked_; ++i) {
      cell_at_[i] = static_cast<std::uint32_t>(order[i]);
      rank_of_[cell_at_[i]] = i;
      if (!leaves_.empty(cell_at_[i])) filled_[i / 64] |= 1ULL << i % 64;
    }
  }

  /// The oldest leaf of the lowest list; a held one goes to the newest of its class.
  Slot lowest(Held held) {
    Slot found = no_slot;
    std::uint32_t passed = 0;
    while (found == no_slot && passed < 64) {
      Slot first = no_slot;
      for_filled([&](std::uint32_t cell) {
        first = leaves_.back(cell);
        return false;
      });
      if (first == no_slot) return no_slot;
      if (held.empty() || held[first] == 0) return first;
      ++passed;
      take_out(first);
      blocks_[first].last_ms = now_;
      put_in(first);
    }
    for_filled([&](std::uint32_t cell) {
      for (Slot slot = leaves_.back(cell); slot != no_slot; slot = leaves_.before(slot))
        if (held[slot] == 0) return found = slot, false;
      return true;
    });
    return found;
  }

  std::vector<Block> blocks_;
  SlotLists leaves_;
  std::vector<Memory> memory_;
  ReuseTimes times_;
  std::array<std::uint32_t, cells> rank_of_{}, cell_at_{};
  std::uint32_t ranked_ = 0;  // how many cells have a class that is used, first in cell_at_
  /// Until then the last leaf of the list stays. 0: it is looked at.
  std::array<std::uint64_t, cells> due_{};
  std::array<std::uint64_t, cells / 64> filled_{};  // bit: the list of that rank is not empty
  double paths_ = 0, mean_added_ = 0, mean_length_ = 0;
  News news_;         // of the path that is visited
  float weight_ = 0;  // of each of its blocks
  std::uint64_t now_ = 0, aged_ms_ = 0, stamps_ = 0;
  std::uint64_t seen_ = 0, rank_next_ = 0;  // blocks visited
  std::size_t hand_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_learned(PoolSize size) {
  return std::make_unique<Learned>(size);
}

}  // namespace sluice
