// Memory that others read, whichever way: what is promised of all (base/remote_memory.h), held to
// UCX, to TCP in the clear and encrypted, and to memory that both map, between processes of which
// some are killed.
#include "base/remote_memory.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <span>
#include <string>

#include "base/crc32c.h"
#include "mapped_ways.h"
#include "region_reads.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/ucx/ucx_memory.h"

using namespace sluice;

namespace {

Result<std::unique_ptr<RemoteMemory>> over_tcp(bool is_encrypted) {
  TcpMemoryOptions options;
  options.host = "127.0.0.1";
  options.is_encrypted = is_encrypted;
  options.threads = 2;
  return make_tcp_memory(options);
}

struct Way {
  const char* name;
  Result<std::unique_ptr<RemoteMemory>> (*make)();
  const char *owner, *reader;  // roles of this program

  std::unique_ptr<RemoteMemory> made() const {
    auto memory = make();
    INFO((memory.ok() ? std::string() : memory.error().message));
    REQUIRE(memory.ok());
    return std::move(memory).value();
  }
};

const Way ucx{"ucx", [] { return make_ucx_memory({}); }, "[.ucx_owner]", "[.ucx_reader]"};
const Way plain{"tcp", [] { return over_tcp(false); }, "[.tcp_owner]", "[.tcp_reader]"};
const Way sealed{"tcp, encrypted", [] { return over_tcp(true); }, "[.sealed_owner]",
                 "[.sealed_reader]"};
const Way mapped{"mapped", make_mapped, "[.mapped_owner]", "[.mapped_reader]"};

/// Each case runs once for each way.
const Way& way_of_this_run() {
  const Way* const way = GENERATE(&ucx, &plain, &sealed, &mapped);
  return *way;
}

/// Until it is killed, or its parent has gone.
void own(const Way& way) {
  const auto memory = way.made();
  const Ref<Buffer> region = filled(*memory);
  write_all(4, memory->key(region).value());
  char byte = 0;
  while (::read(3, &byte, 1) > 0) continue;
}

/// Of the key that it is told, until it is killed.
void read_on(const Way& way) {
  const auto memory = way.made();
  Ended ended;
  auto region = memory->reach(read_all(3), ended);
  REQUIRE(region.ok());
  for (std::uint64_t number = 1;; ++number) {
    (*region)->read(number, {0, 65536}, {65536, 64});
    if (!ended.wait_for(number)) return;
    if (number == 64) write_all(4, std::as_bytes(std::span("many", 4)));
  }
}

}  // namespace

TEST_CASE("owns a region, over ucx", "[.ucx_owner]") { own(ucx); }
TEST_CASE("owns a region, over tcp", "[.tcp_owner]") { own(plain); }
TEST_CASE("owns a region, over tcp, encrypted", "[.sealed_owner]") { own(sealed); }
TEST_CASE("owns a region, mapped by others", "[.mapped_owner]") { own(mapped); }
TEST_CASE("reads a region, over ucx", "[.ucx_reader]") { read_on(ucx); }
TEST_CASE("reads a region, over tcp", "[.tcp_reader]") { read_on(plain); }
TEST_CASE("reads a region, over tcp, encrypted", "[.sealed_reader]") { read_on(sealed); }
TEST_CASE("reads a region, mapped", "[.mapped_reader]") { read_on(mapped); }

TEST_CASE("two parts of another process's region come, the second behind the first") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  Child owner(way.owner);
  const auto memory = way.made();
  Ended ended;
  auto region = memory->reach(read_all(owner.in()), ended);
  REQUIRE(region.ok());
  CHECK((*region)->size() == region_bytes);
  const RemoteRegion::Part parts[] = {
      {0, 0}, {0, 1}, {5, 65536}, {region_bytes - 64, 64}, {0, region_bytes}};
  std::uint64_t number = 0;
  for (const auto& first : parts)
    for (const auto& then : parts) {
      (*region)->read(++number, first, then);
      CHECK(is_right(ended.wait_for(number), first, then));
      // The first one where it is wanted: it is there, and let go of, when the read has ended.
      const Ref<Buffer> to = Buffer::zeros(first.size);
      (*region)->read(++number, first, then, to);
      const Ref<Buffer> rest = ended.wait_for(number);
      CHECK(to->references() == 1);
      CHECK(is_right(to, first, {}));
      CHECK(is_right(rest, {}, then));
      // Where it was summed on its way, that is of what is there now.
      const std::optional<std::uint32_t> sum = ended.sum_of(number);
      const std::uint32_t right = crc32c({to->data(), to->size()});
      CHECK(sum.value_or(right) == right);
      if (&way == &mapped || &way == &ucx) CHECK(sum.has_value());  // who maps it copies it too
    }
}

TEST_CASE("what a region has not is not read, and what it has is") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  const auto memory = way.made(), other = way.made();
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
  const Way& way = way_of_this_run();
  INFO(way.name);
  Child owner(way.owner);
  const auto memory = way.made();
  Ended ended;
  auto region = memory->reach(read_all(owner.in()), ended);
  REQUIRE(region.ok());
  constexpr std::uint64_t reads = 2000;
  const Ref<Buffer> to = Buffer::zeros(65536);
  for (std::uint64_t number = 1; number < reads; ++number) {
    (*region)->read(number, {0, 65536}, {65536, 64}, number % 2 == 0 ? to : Ref<Buffer>());
    if (number == reads / 2) owner.kill();
  }
  CHECK(ended.has_each_ended_once(1, reads));
}

TEST_CASE("when a region has gone, what is read of it lets go of where it was to come") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  Child owner(way.owner);
  const auto memory = way.made();
  Ended ended;
  auto region = memory->reach(read_all(owner.in()), ended);
  REQUIRE(region.ok());
  constexpr std::uint64_t reads = 200;
  LetGo gone(reads);
  for (std::uint64_t number = 1; number <= reads; ++number)
    (*region)->read(number, {0, 65536}, {65536, 64}, gone.place(65536));
  CHECK(ended.wait_for(1));
  if (GENERATE(false, true)) owner.stop();  // whatever its owner does
  region->reset();
  CHECK(gone.are_all());
}

TEST_CASE("a key whose owner has ended is reached nowhere, and its reads end") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  const auto memory = way.made();
  Ended ended;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    std::vector<std::byte> key;
    {
      Child owner(way.owner);
      key = read_all(owner.in());
    }
    auto region = memory->reach(key, ended);
    REQUIRE(region.ok());
    (*region)->read(number, {0, 64}, {64, 64});
    CHECK_FALSE(ended.wait_for(number));
  }
}

TEST_CASE("an owner serves others behind a reader that was killed") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  const auto memory = way.made(), other = way.made();
  const Ref<Buffer> region = filled(*memory);
  for (int i = 0; i < 3; ++i) {
    Child reader(way.reader);
    write_all(reader.out(), memory->key(region).value());
    CHECK(read_all(reader.in()).size() == 4);
    reader.kill();
  }
  Ended ended;
  auto reached = other->reach(memory->key(region).value(), ended);
  REQUIRE(reached.ok());
  (*reached)->read(1, {64, 4096}, {0, 64});
  CHECK(is_right(ended.wait_for(1), {64, 4096}, {0, 64}));
}

TEST_CASE("a region outlives the memory that made it, and only that gives a key to it") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  auto memory = way.made();
  Ref<Buffer> region = filled(*memory);
  CHECK_FALSE(memory->key(Buffer::zeros(64)).ok());
  const auto other = way.made();
  CHECK_FALSE(other->key(region).ok());
  memory.reset();
  CHECK(region->data()[64 * 3] == byte_at(64 * 3));
}

TEST_CASE("no bytes but those of a key reach anything") {
  const Way& way = way_of_this_run();
  INFO(way.name);
  const auto memory = way.made();
  const Ref<Buffer> region = filled(*memory);
  const std::vector<std::byte> key = memory->key(region).value();
  Ended ended;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}})
    CHECK_FALSE(memory->reach(std::vector(key.begin(), key.begin() + size), ended).ok());
  std::vector<std::byte> other_format = key, longer = key;
  other_format[0] ^= std::byte{1};
  CHECK_FALSE(memory->reach(other_format, ended).ok());
  longer.resize(70'000);
  CHECK_FALSE(memory->reach(longer, ended).ok());
}
