// Memory for matrices that processes share: the same numbers in the same pages, which nobody can
// change once they are sealed.
#include "engine/checkpoint/weight_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/system/failing_call.h"

using namespace sluice;
using Catch::Matchers::Contains;
using kernels::Weight;
using kernels::WeightFormat;
using test::FailingCall;

namespace {

const PartKey key{1, 2, 3};

Tensor matrix_of(std::int64_t out, std::int64_t in, Dtype dtype, std::uint64_t seed = 1) {
  SplitMix64 random(seed);
  std::vector<float> values(static_cast<std::size_t>(out * in));
  for (float& value : values) value = static_cast<float>(random.uniform()) - 0.5F;
  if (dtype == Dtype::f32) return Tensor::of_f32({out, in}, values);
  Tensor narrow = Tensor::zeros(dtype, {out, in}).value();
  std::ranges::transform(values, narrow.bf16().begin(), bf16_from_f32);
  return narrow;
}

template <typename T>
bool same(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

bool same(const Weight& a, const Weight& b) {
  return a.out() == b.out() && a.in() == b.in() && a.format() == b.format() &&
         same(a.bf16(), b.bf16()) && same(a.f32(), b.f32()) && same(a.int8(), b.int8()) &&
         same(a.scales(), b.scales()) && same(a.sums(), b.sums());
}

/// An arena with one matrix, sealed.
struct Sealed {
  Weight weight = Weight::from(matrix_of(8, 64, Dtype::f32)).value();
  Weight kept;
  OwnedFile memory;

  Sealed() {
    WeightArena arena = WeightArena::make(key).value();
    kept = arena.keep("a", weight);
    memory = arena.seal().value();
  }
};

}  // namespace

TEST_CASE("a matrix of each format has the same numbers where another process finds it") {
  for (const WeightFormat format : {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const auto& [out, in] :
           {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 33}, {640, 70}}) {
        CAPTURE(static_cast<int>(format), to_string(dtype), out, in);
        const Weight weight = Weight::from(matrix_of(out, in, dtype), format).value();
        WeightArena arena = WeightArena::make(key).value();
        const Weight first = arena.keep("first", weight);
        const Weight kept = arena.keep("second", weight);
        CHECK(same(kept, weight));
        CHECK_FALSE(arena.is_sealed());
        const OwnedFile memory = arena.seal().value();
        CHECK(arena.is_sealed());
        CHECK(same(kept, weight));
        const WeightArena other = WeightArena::attach(memory, key).value();
        const auto found = other.find("second", weight.out(), weight.in(), format);
        REQUIRE(found.has_value());
        CHECK(same(*found, weight));
        CHECK_FALSE(other.find("third", weight.out(), weight.in(), format).has_value());
        CHECK_FALSE(other.find("second", weight.out() + 1, weight.in(), format).has_value());
        CHECK_FALSE(other.find("second", weight.out(), weight.in() + 1, format).has_value());
        CHECK_FALSE(
            other
                .find("second", weight.out(), weight.in(),
                      format == WeightFormat::bf16 ? WeightFormat::int8 : WeightFormat::bf16)
                .has_value());
      }
}

TEST_CASE("matrices of many megabytes stand one behind the other, each where its maker reads it") {
  WeightArena arena = WeightArena::make(key).value();
  std::vector<Weight> made, kept;
  for (std::uint64_t i = 0; i < 7; ++i) {
    const std::int64_t out = i == 3 ? 9'001 : 1'801;  // 36 MB, more than one mapping has
    made.push_back(Weight::from(matrix_of(out, 1'000, Dtype::f32, i)).value());
    kept.push_back(arena.keep(std::to_string(i), made.back()));
  }
  const OwnedFile memory = arena.seal().value();
  const WeightArena other = WeightArena::attach(memory, key).value();
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    CHECK(same(kept[i], made[i]));
    CHECK(kept[i].f32().data() != made[i].f32().data());
    const auto found = other.find(std::to_string(i), made[i].out(), 1'000, WeightFormat::exact);
    REQUIRE(found.has_value());
    CHECK(same(*found, made[i]));
    bytes += made[i].bytes();
  }
  CHECK(other.bytes() < bytes + 4096);  // no holes
}

TEST_CASE("matrices outlive the arena that they are in") {
  std::optional<Weight> kept, found;
  const Weight weight = Weight::from(matrix_of(40, 40, Dtype::f32)).value();
  const auto lease = std::make_shared<int>(1);
  {
    WeightArena arena = WeightArena::make(key).value();
    kept = arena.keep("a", weight);
    const OwnedFile memory = arena.seal().value();
    WeightArena other = WeightArena::attach(memory, key).value();
    other.hold(lease);
    found = other.find("a", 40, 40, WeightFormat::exact);
  }
  CHECK(same(*kept, weight));
  CHECK(same(*found, weight));
  CHECK(lease.use_count() == 2);  // what goes with the memory is there as long
  found.reset();
  CHECK(lease.use_count() == 1);
}

TEST_CASE("sealed memory cannot be written, cut or mapped to be written") {
  const Sealed sealed;
  const int file = sealed.memory.get();
  char byte = 'x';
  CHECK(::pwrite(file, &byte, 1, 0) < 0);
  CHECK(::ftruncate(file, 0) != 0);
  CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  // As who finds a way to open it anew.
  const OwnedFile again(::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR));
  REQUIRE(again.get() >= 0);
  CHECK(::pwrite(again.get(), &byte, 1, 0) < 0);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(again.get(), 0) != 0);
  CHECK(::ftruncate(again.get(), 1 << 20) != 0);
  CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) == MAP_FAILED);
  // The mappings of who made it and who attached it.
  const WeightArena other = WeightArena::attach(sealed.memory, key).value();
  const auto found = other.find("a", 8, 64, WeightFormat::exact);
  for (const float* numbers : {sealed.kept.f32().data(), found->f32().data()}) {
    const auto page = reinterpret_cast<std::uintptr_t>(numbers) / 4096 * 4096;
    CHECK(::mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE) != 0);
  }
  CHECK(same(*found, sealed.weight));
}

TEST_CASE("what is not sealed, another part's or no shared matrices is not attached") {
  const Sealed sealed;
  PartKey other = key;
  other[31] = 1;
  CHECK(WeightArena::attach(sealed.memory, other).error().code == ErrorCode::stale);
  const auto refused = [](int file) {
    const OwnedFile owned(file);
    return WeightArena::attach(owned, key).error();
  };
  CHECK(refused(::open("/dev/null", O_RDONLY)).code == ErrorCode::corrupt);
  const int open_memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(open_memory, 4096) == 0);
  CHECK_THAT(refused(open_memory).message, Contains("not sealed"));
  const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  for (const int left_out : {F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    const int file = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(file, 4096) == 0);
    REQUIRE(::fcntl(file, F_ADD_SEALS, all & ~left_out) == 0);
    CHECK_THAT(refused(file).message, Contains("not sealed"));
  }
  for (const off_t size : {0, 127, 128, 4096}) {
    const int file = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(file, size) == 0);
    REQUIRE(::fcntl(file, F_ADD_SEALS, all) == 0);
    CHECK(refused(file).code != ErrorCode::deadline);
  }
}

TEST_CASE("a matrix for which there is no memory stays where it was, and nothing is handed on") {
  const Weight weight = Weight::from(matrix_of(64, 64, Dtype::f32)).value();
  WeightArena arena = WeightArena::make(key).value();
  const Weight first = arena.keep("first", weight);
  CHECK(first.f32().data() != weight.f32().data());
  {
    const FailingCall failing("pwrite", ENOSPC);
    const Weight second = arena.keep("second", weight);
    CHECK(second.f32().data() == weight.f32().data());
  }
  CHECK(arena.keep("third", weight).f32().data() == weight.f32().data());
  CHECK(same(first, weight));
  const auto sealed = arena.seal();
  REQUIRE_FALSE(sealed.ok());
  CHECK(sealed.error().code == ErrorCode::unavailable);
  CHECK_THAT(sealed.error().message, Contains("No space left"));
}

TEST_CASE("each call to the system that fails for shared matrices is said") {
  for (const char* call : {"memfd_create", "open"}) {
    const FailingCall failing(call, EMFILE);
    CHECK_THAT(WeightArena::make(key).error().message, Contains("Too many open files"));
  }
  const Sealed sealed;
  for (const int at : {1, 2}) {
    const FailingCall failing("mmap", ENOMEM, at);
    const auto attached = WeightArena::attach(sealed.memory, key);
    REQUIRE_FALSE(attached.ok());
    CHECK_THAT(attached.error().message, Contains("cannot be mapped"));
  }
  WeightArena arena = WeightArena::make(key).value();
  {
    const FailingCall failing("mmap", ENOMEM);
    CHECK(arena.keep("a", sealed.weight).f32().data() == sealed.weight.f32().data());
  }
  CHECK_THAT(arena.seal().error().message, Contains("cannot be mapped"));
  WeightArena second = WeightArena::make(key).value();
  const FailingCall half("pwrite", FailingCall::half);
  CHECK(same(second.keep("a", sealed.weight), sealed.weight));
}

TEST_CASE("blocks that lie in a file, and a name that is there, are not kept again") {
  const std::vector<std::uint8_t> bytes(kernels::layout_of(kernels::BlockType::q8_0).bytes * 4);
  const Weight blocks =
      Weight::of_blocks({{kernels::BlockType::q8_0, bytes.data(), 4, 32, 0, nullptr}});
  WeightArena arena = WeightArena::make(key).value();
  CHECK(arena.keep("blocks", blocks).blocks()[0].bytes == bytes.data());
  const Weight weight = Weight::from(matrix_of(4, 4, Dtype::f32)).value();
  (void)arena.keep("a", weight);
  CHECK(arena.keep("a", weight).f32().data() == weight.f32().data());
  CHECK(arena.keep(std::string(5000, 'n'), weight).f32().data() == weight.f32().data());
  const OwnedFile memory = arena.seal().value();
  const WeightArena other = WeightArena::attach(memory, key).value();
  CHECK_FALSE(other.find("blocks", 4, 32, WeightFormat::exact).has_value());
  CHECK(other.find("a", 4, 4, WeightFormat::exact).has_value());
}
