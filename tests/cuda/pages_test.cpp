// Pages of a device that are copied to the host and back: they have the bytes, in the order, that
// the CPU's have.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "engine/device/device_text.h"
#include "engine/family/model.h"
#include "on_device.h"
#include "tests/directories.h"
#ifdef SLUICE_EMULATED_TESTS
#include "kernels/cuda/emulation.h"
#endif

using namespace sluice;
using Way = PageCopies::Way;

namespace {

const std::string model_directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/qwen2";

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

TEST_CASE("a page that is copied down has the CPU's keys and values, each in its place") {
  if (!device::there()) return;
  const Model cpu = Model::open(model_directory).value();
  const auto text =
      DeviceText::load(cpu.architecture(), cpu.file(), DeviceDecoder::Precision::exact, {4, 16})
          .value();
  KvPool pool(cpu.text().kv_shape(4), 16);
  const std::size_t bytes = pool.shape().page_bytes();
  REQUIRE(text->pages().shape().page_bytes() == bytes);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 12; ++i) tokens.push_back((i * 37 + 11) % 128);
  std::vector<float> rows, hidden;
  cpu.text().embed(tokens, rows);
  KvSequence here, there;
  const Chunk on_cpu[] = {{&here, rows}}, on_device[] = {{&there, rows}};
  REQUIRE(cpu.text().forward(pool, on_cpu, hidden).ok());
  REQUIRE(text->forward(on_device, hidden).ok());
  REQUIRE(here.pages().size() == 3);

  std::vector<std::byte> down(3 * bytes), again(3 * bytes);
  PageCopies& copies = *text->copies();
  REQUIRE(copies.pin(down).ok());
  std::vector<PageCopies::One> pages, others;
  for (std::size_t i = 0; i < 3; ++i) {
    pages.push_back({there.pages()[i], &down[i * bytes]});
    others.push_back({static_cast<Page>(10 + i), &down[i * bytes]});
  }
  REQUIRE(copies.begin(Way::down, pages).ok());
  REQUIRE(copies.wait(Way::down).ok());
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<float> got = floats(std::span(down).subspan(i * bytes, bytes));
    const std::vector<float> want = floats(pool.content(here.pages()[i]));
    float most = 0;
    for (std::size_t at = 0; at < want.size(); ++at)
      most = std::max(most, std::abs(got[at] - want[at]));
    CHECK(most < 1e-4F);  // another order of sums
    CHECK(std::ranges::any_of(want, [](float value) { return std::abs(value) > 0.1F; }));
  }

  // Up to other pages, and down from those.
  REQUIRE(copies.begin(Way::up, others).ok());
  REQUIRE(copies.wait(Way::up).ok());
  for (std::size_t i = 0; i < 3; ++i) others[i].host = &again[i * bytes];
  REQUIRE(copies.begin(Way::down, others).ok());
  bool is_done = false;
  while (!is_done) is_done = copies.is_done(Way::down).value();
  CHECK(again == down);
}

#ifdef SLUICE_EMULATED_TESTS
TEST_CASE("copies of pages that fail say so, and a forward hears nothing of it") {
  const Model cpu = Model::open(model_directory).value();
  const auto text =
      DeviceText::load(cpu.architecture(), cpu.file(), DeviceDecoder::Precision::exact, {4, 16})
          .value();
  std::vector<std::byte> host(text->pages().shape().page_bytes());
  const PageCopies::One one[] = {{0, host.data()}};
  for (const std::size_t call : {0, 1, 2, 3}) {
    device::emulated::Fault fault{device::emulated::Fault::Of::copies, call};
    device::emulated::plan_fault(&fault);
    Result<void> done = text->copies()->begin(Way::down, one);
    if (done.ok()) {
      const Result<bool> asked = text->copies()->is_done(Way::down);
      if (!asked.ok()) done = asked.error();
    }
    if (done.ok()) done = text->copies()->wait(Way::down);
    device::emulated::plan_fault(nullptr);
    REQUIRE(!done.ok());
    CHECK(done.error().code == ErrorCode::unavailable);
    REQUIRE(text->copies()->wait(Way::down).ok());
    std::vector<float> rows, hidden;
    const std::int32_t token = 5;
    cpu.text().embed({&token, 1}, rows);
    KvSequence sequence;
    const Chunk chunk[] = {{&sequence, rows}};
    CHECK(text->forward(chunk, hidden).ok());
  }
}
#endif
