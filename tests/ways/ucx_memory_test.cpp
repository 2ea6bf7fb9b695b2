// UCX: its keys, the memory that it shares, devices, and what loading it leaves as it was. What is
// promised of every way is in remote_memory_test.cpp.
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

TEST_CASE("a key of ucx of other bytes is none") {
  const auto memory = made();
  const Ref<Buffer> region = filled(*memory);
  const std::vector<std::byte> key = memory->key(region).value();
  CHECK(ucx::decode(key).has_value());
  for (std::size_t size = 0; size < key.size(); ++size)
    CHECK_FALSE(ucx::decode(std::span(key).first(size)).has_value());
  std::vector<std::byte> longer = key;
  longer.push_back({});
  CHECK_FALSE(ucx::decode(longer).has_value());
  Ended ended;
  CHECK_FALSE(memory->reach(longer, ended).ok());
}

TEST_CASE("a key of ucx that says more of a region than is there is read nowhere") {
  const auto memory = made(), other = made();
  const Ref<Buffer> region = filled(*memory);
  const ucx::Key right = ucx::decode(memory->key(region).value()).value();
  Ended ended;
  std::uint64_t number = 0;
  const auto reads = [&](std::uint64_t address, std::uint64_t size, RemoteRegion::Part part) {
    ucx::Key key = right;
    key.address = address;
    key.size = size;
    auto reached = other->reach(encode(key), ended);
    REQUIRE(reached.ok());
    (*reached)->read(++number, part, {0, 64});
    const Ref<Buffer> bytes = ended.wait_for(number);
    CHECK((!bytes || is_right(bytes, part, {0, 64})));
    return static_cast<bool>(bytes);
  };
  constexpr std::uint64_t page = 4096, far = std::uint64_t{1} << 30U;
  CHECK(reads(right.address, region_bytes, {region_bytes - 64, 64}));
  for (const std::uint64_t more : {page, std::uint64_t{region_bytes}, far, far << 10U}) {
    CHECK_FALSE(reads(right.address, region_bytes + more, {region_bytes + more - 64, 64}));
    CHECK_FALSE(reads(right.address + more, region_bytes, {region_bytes - 64, 64}));
    CHECK_FALSE(reads(right.address - more, region_bytes, {0, 64}));
  }
  CHECK_FALSE(reads(page, region_bytes, {0, 64}));
  CHECK(reads(right.address, region_bytes / 2, {0, 64}));  // no more than it says
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
