// A decode step takes no memory once its buffers have their size, however many sequences advance
// and whatever format the weights have.
#include <catch2/catch.hpp>

#include "base/worker_pool.h"
#include "counter.h"
#include "engine/family/model.h"
#include "engine/tasks/generator.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

/// Of `steps` steps of all sequences, each a token more, when buffers have had that size before.
std::size_t taken(const Model& model, std::size_t sequences, std::size_t steps) {
  const Decoder& text = model.text();
  KvPool pool(text.kv_shape(4), 64);
  std::vector<KvSequence> kept(sequences);
  std::vector<float> rows, hidden, logits;
  text.embed(std::vector<std::int32_t>(sequences, 7), rows);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < sequences; ++i) {
    chunks.push_back({&kept[i], std::span(rows).subspan(i * text.width(), text.width())});
  }
  std::size_t before = 0;
  for (const bool measured : {false, true}) {
    before = allocations();
    for (std::size_t step = 0; step < steps; ++step) {
      SLUICE_CHECK(text.forward(pool, chunks, hidden).ok());
      text.logits(hidden, logits);
    }
    if (!measured)
      for (KvSequence& sequence : kept) pool.truncate(sequence, 0);
  }
  return allocations() - before;
}

}  // namespace

TEST_CASE("a decode step takes no memory") {
  using kernels::WeightFormat;
  limit_threads(1);  // a worker that comes late would bring buffers of its own
  for (const char* name : {"llama", "gemma", "qwen2"})
    for (const WeightFormat format :
         {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
      INFO(name << " in format " << static_cast<int>(format));
      const Model model = Model::open(golden + name, format).value();
      CHECK(taken(model, 1, 20) == 0);
      CHECK(taken(model, 3, 20) == 0);
    }
  const Model quantised = Model::open(golden + "gguf/llama.gguf").value();
  for (const std::size_t sequences : {1U, 3U, 6U}) CHECK(taken(quantised, sequences, 20) == 0);
  limit_threads(0);
}

TEST_CASE("an answer's steps take no memory, from the plan of a forward to the chosen token") {
  limit_threads(1);
  constexpr std::size_t answers = 3, warm = 8, steps = 30;
  const Model model = Model::open(golden + "llama").value();
  const Decoder& text = model.text();
  (void)taken(model, answers, 64);              // the forward's buffers, for longer sequences
  KvPool pool(text.kv_shape(64), answers + 1);  // a sequence has one page: lists of them stay
  Generator generator(text, pool, nullptr, {});
  for (std::uint64_t id = 0; id < answers; ++id) {
    Generation answer;
    answer.id = id;
    answer.options.tokens_max = warm + steps + 1;
    answer.history = {1, 2, 3};
    text.embed(answer.history, answer.rows);
    generator.add(std::move(answer));
  }
  std::vector<std::uint64_t> advanced;
  for (std::size_t step = 0; step < warm; ++step) generator.step(advanced);
  advanced.clear();
  const std::size_t before = allocations();
  for (std::size_t step = 0; step < steps; ++step) {
    generator.step(advanced);
    REQUIRE(advanced.size() == answers);
    advanced.clear();
  }
  CHECK(allocations() - before == 0);
  CHECK(generator.find(0)->tokens.size() == warm + steps);
  limit_threads(0);
}
