// Memory that the machines of one process read: a read copies at once, and a test looks on between
// its two parts.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/remote_memory.h"

namespace sluice {

class OneMemory final : public RemoteMemory {
 public:
  /// Of all of these: what stands where, and what happens before each read and amid it.
  struct World {
    std::map<std::uint64_t, Ref<Buffer>> regions;
    std::uint64_t next = 1;
    std::function<void()> before, amid;
    bool is_reachable = true, has_memory = true;
    std::size_t reads = 0;
    bool holds = false;                       // reads, until `go_on`
    std::vector<std::function<void()>> held;  // each writes what it reads, whoever has gone
    void go_on() {
      for (const auto& one : std::exchange(held, {})) one();
    }
  };
  explicit OneMemory(World& world) : world_(world) {}

  Result<Ref<Buffer>> make(std::size_t size) override {
    if (!world_.has_memory) return Error{ErrorCode::unavailable, "none that others map"};
    return Buffer::zeros(size);
  }
  Result<std::vector<std::byte>> key(const Ref<Buffer>& region) override {
    std::vector<std::byte> bytes;
    append_little_endian(world_.next, 8, bytes);
    world_.regions[world_.next++] = region;
    return bytes;
  }
  Result<std::unique_ptr<RemoteRegion>> reach(std::span<const std::byte> key,
                                              RemoteRegion::Listener& listener) override {
    const auto it = world_.regions.find(key.size() == 8 ? little_endian(key) : 0);
    if (it == world_.regions.end()) return Error{ErrorCode::corrupt, "no key"};
    return std::unique_ptr<RemoteRegion>(std::make_unique<Region>(world_, it->second, listener));
  }

 private:
  class Region final : public RemoteRegion {
   public:
    Region(World& world, Ref<Buffer> bytes, Listener& listener)
        : world_(world), bytes_(std::move(bytes)), listener_(listener) {}
    ~Region() override { *is_there_ = false; }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    std::uint64_t size() const override { return bytes_->size(); }
    void read(std::uint64_t number, Part first, Part then, Ref<Buffer> to) override {
      ++world_.reads;
      if (world_.holds)
        return world_.held.push_back(
            [=, this, from = bytes_, is_there = is_there_, to = std::move(to)]() mutable {
              if (*is_there) return now(number, first, then, std::move(to));
              std::memcpy(to->data(), from->data() + first.offset, first.size);
            });
      now(number, first, then, std::move(to));
    }

   private:
    void now(std::uint64_t number, Part first, Part then, Ref<Buffer> to) {
      const std::size_t unplaced = to ? 0 : first.size;
      Ref<Buffer> bytes = world_.is_reachable ? Buffer::zeros(unplaced + then.size) : Ref<Buffer>();
      std::optional<std::uint32_t> sum;
      if (bytes) {
        if (world_.before) world_.before();
        std::memcpy((to ? to : bytes)->data(), bytes_->data() + first.offset, first.size);
        if (to) sum = crc32c({to->data(), to->size()});
        if (world_.amid) world_.amid();
        std::memcpy(bytes->data() + unplaced, bytes_->data() + then.offset, then.size);
      }
      to = {};
      listener_.read_ended(number, std::move(bytes), sum);
    }

    World& world_;
    const std::shared_ptr<bool> is_there_ = std::make_shared<bool>(true);
    const Ref<Buffer> bytes_;
    Listener& listener_;
  };

  World& world_;
};

}  // namespace sluice
