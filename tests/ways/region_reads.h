// Reads of regions by this process, and processes that own or read some: what tests of memory that
// others read have in common.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/remote_memory.h"

namespace sluice {

inline constexpr std::size_t region_bytes = std::size_t{4} << 20U;
inline constexpr auto patience = std::chrono::seconds(20);

template <typename Condition>
bool comes_true(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

/// How each read has ended, and how often.
class Ended final : public RemoteRegion::Listener {
 public:
  void read_ended(std::uint64_t number, Ref<Buffer> bytes,
                  std::optional<std::uint32_t> sum) override {
    const std::lock_guard lock(mutex_);
    ++times_[number];
    if (sum) sums_[number] = *sum;
    bytes_[number] = std::move(bytes);
    came_.notify_all();
  }
  /// Null: without bytes. They are given once.
  Ref<Buffer> wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    REQUIRE(came_.wait_for(lock, patience, [&] { return times_.contains(number); }));
    return std::exchange(bytes_[number], {});
  }
  /// Of what went to its place; none: it was not summed.
  std::optional<std::uint32_t> sum_of(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto it = sums_.find(number);
    return it != sums_.end() ? std::optional(it->second) : std::nullopt;
  }
  bool has_each_ended_once(std::uint64_t first, std::uint64_t end) {
    std::unique_lock lock(mutex_);
    const auto all = [&] {
      for (std::uint64_t number = first; number < end; ++number)
        if (!times_.contains(number)) return false;
      return true;
    };
    if (!came_.wait_for(lock, patience, all)) return false;
    return std::ranges::all_of(times_, [](const auto& one) { return one.second == 1; });
  }
  std::size_t ended() {
    const std::lock_guard lock(mutex_);
    return times_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<std::uint64_t, int> times_;
  std::map<std::uint64_t, Ref<Buffer>> bytes_;
  std::map<std::uint64_t, std::uint32_t> sums_;
};

/// Memory for reads, and whether they have let go of it.
class LetGo {
 public:
  explicit LetGo(std::size_t places) : left_(std::make_shared<Left>(places)) {}
  Ref<Buffer> place(std::size_t size) { return Ref<Buffer>(new Place(size, left_)); }
  bool are_all() const {
    std::unique_lock lock(left_->mutex);
    return left_->changed.wait_for(lock, patience, [&] { return left_->places == 0; });
  }

 private:
  struct Left {
    explicit Left(std::size_t count) : places(count) {}
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t places;
  };
  class Place final : public Buffer {
   public:
    Place(std::size_t size, std::shared_ptr<Left> left)
        : Buffer(new std::byte[size], size, nullptr), left_(std::move(left)) {}

   private:
    void end() override {
      {
        const std::lock_guard lock(left_->mutex);
        --left_->places;
        left_->changed.notify_all();
      }
      delete[] data();
      delete this;
    }
    const std::shared_ptr<Left> left_;
  };
  const std::shared_ptr<Left> left_;
};

inline std::byte byte_at(std::size_t place) { return static_cast<std::byte>(place * 7 / 64); }

inline Ref<Buffer> filled(RemoteMemory& memory) {
  auto region = memory.make(region_bytes);
  REQUIRE(region.ok());
  for (std::size_t i = 0; i < region_bytes; ++i) (*region)->data()[i] = byte_at(i);
  return *region;
}

inline bool is_right(const Ref<Buffer>& bytes, RemoteRegion::Part first, RemoteRegion::Part then) {
  if (!bytes || bytes->size() != first.size + then.size) return false;
  for (std::size_t i = 0; i < first.size; ++i)
    if (bytes->data()[i] != byte_at(first.offset + i)) return false;
  for (std::size_t i = 0; i < then.size; ++i)
    if (bytes->data()[first.size + i] != byte_at(then.offset + i)) return false;
  return true;
}

/// This program again, in one of the roles below, with a pipe from it and one to it.
class Child {
 public:
  explicit Child(const char* role) {
    int from[2], to[2];
    REQUIRE(::pipe(from) == 0);
    REQUIRE(::pipe(to) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(to[0], 3);
      ::dup2(from[1], 4);
      for (int other = 5; other < 64; ++other) ::close(other);
      ::execl("/proc/self/exe", "test_ways", role, nullptr);
      ::_exit(9);
    }
    REQUIRE(process_ > 0);
    ::close(from[1]);
    ::close(to[0]);
    in_ = from[0];
    out_ = to[1];
  }
  ~Child() {
    kill();
    ::close(in_);
    ::close(out_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  /// All of its threads stand still when this comes back.
  void stop() {
    ::kill(process_, SIGSTOP);
    REQUIRE(::waitpid(process_, nullptr, WUNTRACED) == process_);
  }
  int in() const { return in_; }
  int out() const { return out_; }

 private:
  pid_t process_ = 0;
  int in_ = -1, out_ = -1;
};

inline void write_all(int to, std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  REQUIRE(::write(to, &size, sizeof size) == sizeof size);
  REQUIRE(::write(to, bytes.data(), size) == static_cast<ssize_t>(size));
}

inline std::vector<std::byte> read_all(int from) {
  std::uint64_t size = 0;
  REQUIRE(::read(from, &size, sizeof size) == sizeof size);
  REQUIRE(size < 65536);
  std::vector<std::byte> bytes(size);
  REQUIRE(::read(from, bytes.data(), size) == static_cast<ssize_t>(size));
  return bytes;
}

}  // namespace sluice
