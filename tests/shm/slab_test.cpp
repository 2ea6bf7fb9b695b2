// One slab: the memory that its blocks take from the system, and what a reader finds in it.
#include "runtime/shm/slab.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

using namespace sluice;
using namespace sluice::shm;

namespace {

constexpr std::size_t unit = BlockPool::unit_bytes;

/// Units of memory that the file has; a system with huge pages gives more than was asked for.
std::size_t units_of(const Slab& slab) {
  struct stat state {};
  REQUIRE(::fstat(slab.descriptor(), &state) == 0);
  return static_cast<std::size_t>(state.st_blocks) * 512 / unit;
}

std::string found(const SlabView& view, const wire::Handle& handle, std::size_t size) {
  const Result<const std::byte*> bytes = view.find(handle, size);
  return bytes.ok() ? "found" : bytes.error().message;
}

OwnedFile copy_of(const Slab& slab) {
  return OwnedFile(::fcntl(slab.descriptor(), F_DUPFD_CLOEXEC, 0));
}

}  // namespace

TEST_CASE("a block gets whole units of memory from the system before it is written") {
  const auto slab = Slab::make().value();
  const std::size_t before = units_of(*slab);
  const auto more = [&](std::uint32_t block, std::size_t size) {
    REQUIRE(slab->fill(block, size));
    return units_of(*slab) - before;
  };
  CHECK(more(0, 1) >= 1);
  CHECK(more(0, unit) >= 1);
  CHECK(more(0, unit + 1) >= 2);
  CHECK(more(2, 2 * unit) >= 4);
  CHECK(more(0, 4 * unit) >= 4);
  CHECK(more(8, 3 * unit) >= 7);
  CHECK(more(8, 4 * unit) >= 8);
  CHECK(more(BlockPool::slab_units - 1, unit) >= 9);
  CHECK(more(0, BlockPool::slab_bytes) >= BlockPool::slab_units);
  slab->at(BlockPool::slab_units - 1)[unit - 1] = std::byte{7};
  CHECK(units_of(*slab) - before >= BlockPool::slab_units);
}

TEST_CASE("a reader finds a block by its generation, and nothing past the slab's end") {
  const auto slab = Slab::make().value();
  const auto view = SlabView::map(copy_of(*slab)).value();
  constexpr std::uint32_t last = BlockPool::slab_units - 1;
  for (const std::uint32_t block : {0U, 5U, last}) {
    REQUIRE(slab->fill(block, unit));
    slab->at(block)[0] = static_cast<std::byte>(block);
    slab->mark(block, 40 + block);
    const Result<const std::byte*> bytes = view->find({0, block, 40 + block}, unit);
    REQUIRE(bytes.ok());
    CHECK((*bytes)[0] == static_cast<std::byte>(block));
  }
  CHECK(found(*view, {0, 0, 40}, BlockPool::slab_bytes) == "found");
  CHECK(found(*view, {0, 0, 40}, BlockPool::slab_bytes + 1) ==
        "a block 0 of 67108865 bytes, past its slab's end");
  CHECK(found(*view, {0, last, 40 + last}, 1) == "found");
  CHECK(found(*view, {0, last, 40 + last}, unit + 1) ==
        "a block 4095 of 16385 bytes, past its slab's end");
  CHECK(found(*view, {0, last + 1, 40}, 1) == "a block 4096 of 1 bytes, past its slab's end");
  CHECK(found(*view, {0, last + 1, 40}, 0) == "a block 4096 of 0 bytes, past its slab's end");
  CHECK(found(*view, {0, 5, 44}, 1) == "generation 44 of block 5, where 45 stands");
  CHECK(found(*view, {0, 6, 0}, 1) == "generation 0 of block 6, where 0 stands");
  slab->mark(5, 0);
  CHECK(found(*view, {0, 5, 45}, 1) == "generation 45 of block 5, where 0 stands");
}

TEST_CASE("memory that is not a slab of another's is not mapped") {
  const auto why = [](const OwnedFile& file) {
    const auto view = SlabView::map(file);
    return view.ok() ? std::string("mapped") : view.error().message;
  };
  const auto slab = Slab::make().value();
  CHECK(why(copy_of(*slab)) == "mapped");
  CHECK(why(OwnedFile()) == "no descriptor came with it");
  CHECK(why(OwnedFile(::open("/dev/null", O_RDONLY | O_CLOEXEC))) ==
        "the descriptor is not of memory that can be sealed");
  const auto memory = [](off_t size, int seals) {
    OwnedFile file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(file.get(), size) == 0);
    REQUIRE(::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
    return file;
  };
  struct stat state {};
  REQUIRE(::fstat(slab->descriptor(), &state) == 0);
  const int seals = ::fcntl(slab->descriptor(), F_GET_SEALS) & ~F_SEAL_WRITE;
  REQUIRE((seals & F_SEAL_SHRINK) != 0);
  CHECK(why(memory(state.st_size, seals)) == "mapped");
  CHECK(why(memory(state.st_size + 1, seals)) == "the memory has another size than a slab");
  CHECK(why(memory(state.st_size - 1, seals)) == "the memory has another size than a slab");
  CHECK(why(memory(state.st_size, F_SEAL_GROW)) == "the memory is not sealed");
  CHECK(why(memory(state.st_size, F_SEAL_SHRINK)) ==
        ((seals & F_SEAL_GROW) != 0 ? "the memory is not sealed" : "mapped"));
}
