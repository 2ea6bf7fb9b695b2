// Reads over UCX between processes: each ends once, whoever is killed meanwhile.
#include "runtime/ucx/ucx_memory.h"

#include <signal.h>
#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "region_reads.h"
#include "runtime/ucx/ucx_key.h"

using namespace sluice;

namespace {

std::unique_ptr<RemoteMemory> made() {
  auto memory = make_ucx_memory({});
  INFO((memory.ok() ? std::string() : memory.error().message));
  REQUIRE(memory.ok());
  return std::move(memory).value();
}

}  // namespace

TEST_CASE("owns a region until it is killed", "[.owner]") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  write_all(4, memory->key(region).value());
  char byte = 0;
  while (::read(3, &byte, 1) > 0) continue;
}

TEST_CASE("reads a region until it is killed", "[.reader]") {
  const auto memory = made();
  Ended ended;
  auto region = memory->reach(read_all(3), ended);
  REQUIRE(region.ok());
  for (std::uint64_t number = 1;; ++number) {
    (*region)->read(number, {0, 65536}, {65536, 64});
    if (!ended.wait_for(number)) return;
    if (number == 64) write_all(4, std::as_bytes(std::span("many", 4)));
  }
}

TEST_CASE("loads UCX, and looks at its signals", "[.loader]") {
  std::array<struct sigaction, NSIG> before{}, after{};
  const auto look = [](auto& all) {
    for (int number = 1; number < NSIG; ++number) ::sigaction(number, nullptr, &all[number]);
  };
  look(before);
  const auto memory = made();
  look(after);
  for (int number = 1; number < NSIG; ++number)
    REQUIRE(before[number].sa_sigaction == after[number].sa_sigaction);
  write_all(4, std::as_bytes(std::span("same", 4)));
}

TEST_CASE("two parts of another process's region come, the second behind the first") {
  Child owner("[.owner]");
  const auto memory = made();
  Ended ended;
  auto region = memory->reach(read_all(owner.in()), ended);
  REQUIRE(region.ok());
  CHECK((*region)->size() == region_bytes);
  const RemoteRegion::Part parts[] = {
      {0, 1}, {5, 65536}, {region_bytes - 64, 64}, {0, region_bytes}};
  std::uint64_t number = 0;
  for (const auto& first : parts)
    for (const auto& then : parts) {
      (*region)->read(++number, first, then);
      CHECK(is_right(ended.wait_for(number), first, then));
    }
}

TEST_CASE("what a region has not is not read") {
  const auto memory = made(), other = made();
  const Ref<Buffer> region = filled(*memory);
  Ended ended;
  auto reached = other->reach(memory->key(region).value(), ended);
  REQUIRE(reached.ok());
  constexpr std::uint64_t far = ~std::uint64_t{0};
  const RemoteRegion::Part good{0, 64};
  const RemoteRegion::Part bad[] = {{region_bytes, 1}, {region_bytes - 63, 64}, {far, 64},
                                    {far - 32, 64},    {0, region_bytes + 1},   {64, far}};
  std::uint64_t number = 0;
  for (const auto& part : bad) {
    (*reached)->read(++number, part, good);
    CHECK_FALSE(ended.wait_for(number));
    (*reached)->read(++number, good, part);
    CHECK_FALSE(ended.wait_for(number));
  }
  (*reached)->read(++number, good, good);
  CHECK(is_right(ended.wait_for(number), good, good));
}

TEST_CASE("reads of an owner that is killed each end once") {
  Child owner("[.owner]");
  const auto memory = made();
  Ended ended;
  auto region = memory->reach(read_all(owner.in()), ended);
  REQUIRE(region.ok());
  constexpr std::uint64_t reads = 2000;
  for (std::uint64_t number = 1; number < reads; ++number) {
    (*region)->read(number, {0, 65536}, {65536, 64});
    if (number == reads / 2) owner.kill();
  }
  CHECK(ended.has_each_ended_once(1, reads));
}

TEST_CASE("a key whose owner has ended is reached nowhere, and its reads end") {
  const auto memory = made();
  Ended ended;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    std::vector<std::byte> key;
    {
      Child owner("[.owner]");
      key = read_all(owner.in());
    }
    auto region = memory->reach(key, ended);
    REQUIRE(region.ok());
    (*region)->read(number, {0, 64}, {64, 64});
    CHECK_FALSE(ended.wait_for(number));
  }
}

TEST_CASE("an owner serves others behind a reader that was killed") {
  const auto memory = made(), other = made();
  const Ref<Buffer> region = filled(*memory);
  const std::vector<std::byte> key = memory->key(region).value();
  for (int i = 0; i < 3; ++i) {
    Child reader("[.reader]");
    write_all(reader.out(), key);
    CHECK(read_all(reader.in()).size() == 4);
    reader.kill();
  }
  Ended ended;
  auto reached = other->reach(key, ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {64, 4096}, {0, 64});
  CHECK(is_right(ended.wait_for(1), {64, 4096}, {0, 64}));
}

TEST_CASE("a region outlives the memory that made it, and a key of other bytes is none") {
  auto memory = made();
  Ref<Buffer> region = filled(*memory);
  const std::vector<std::byte> key = memory->key(region).value();
  CHECK(ucx::decode(key).has_value());
  for (std::size_t size = 0; size < key.size(); ++size)
    CHECK_FALSE(ucx::decode(std::span(key).first(size)).has_value());
  std::vector<std::byte> longer = key;
  longer.push_back({});
  CHECK_FALSE(ucx::decode(longer).has_value());
  Ended ended;
  CHECK_FALSE(memory->reach(longer, ended).ok());
  CHECK_FALSE(memory->key(Buffer::zeros(64)).ok());
  const auto other = made();
  CHECK_FALSE(other->key(region).ok());
  memory.reset();
  CHECK(region->data()[64 * 3] == byte_at(64 * 3));
}

TEST_CASE("the memory that processes share is their user's alone") {
  const auto memory = made();
  const auto region = memory->make(region_bytes);
  REQUIRE(region.ok());
  std::ifstream maps("/proc/self/maps");
  std::size_t segments = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/SYSV") == std::string::npos) continue;
    ++segments;
    std::istringstream words(line);
    std::string word;
    int segment = -1;
    words >> word >> word >> word >> word >> segment;
    shmid_ds state{};
    REQUIRE(::shmctl(segment, IPC_STAT, &state) == 0);
    CHECK((state.shm_perm.mode & 0777) == 0600);
    CHECK((state.shm_perm.mode & SHM_DEST) != 0);  // goes with the last process that has it
  }
  CHECK(segments >= 2);  // the region and the worker's
}

TEST_CASE("a device that is not there, or is no RDMA card, is an error that names it") {
  for (const std::string device : {"nowhere0:1", "lo"}) {
    const auto memory = make_ucx_memory({.trusted_devices = device});
    REQUIRE_FALSE(memory.ok());
    CHECK(memory.error().message.find("no RDMA device '" + device + "'") != std::string::npos);
  }
}

TEST_CASE("loading UCX leaves signals as they were") {
  Child loader("[.loader]");
  CHECK(read_all(loader.in()).size() == 4);
}
