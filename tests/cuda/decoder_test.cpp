// The decoder on the device against the references that the CPU's is held to.
#include <algorithm>

#include "../model/golden.h"
#include "engine/device/device_text.h"
#include "engine/tasks/generator.h"
#include "on_device.h"
#ifndef SLUICE_CUDA
#include "kernels/cuda/emulation.h"
#include "tests/directories.h"
#endif

using namespace sluice;
using namespace sluice::device;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

struct Loaded {
  SafetensorsFile file;
  DecoderShape shape;
  std::unique_ptr<DeviceDecoder> decoder;
};

Loaded load(const std::string& family, DeviceDecoder::Precision precision) {
  Loaded made{open_weights(directory + family).value(),
              *Architecture::load(directory + family)->text, nullptr};
  const DecoderNames names = find_decoder(made.file, made.shape);
  auto decoder = DeviceDecoder::load(made.shape, names, made.file, precision);
  INFO((decoder.ok() ? "" : decoder.error().message));
  REQUIRE(decoder.ok());
  made.decoder = std::move(decoder).value();
  return made;
}

std::vector<std::int32_t> tokens_of(std::size_t count, std::size_t vocabulary, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random.next() % vocabulary);
  return tokens;
}

}  // namespace

TEST_CASE("the device's logits agree with transformers'") {
  if (!there()) return;
  for (const char* family : {"llama", "llama3", "qwen2", "gemma", "smollm3"}) {
    INFO(family);
    const Loaded loaded = load(family, DeviceDecoder::Precision::exact);
    const Model cpu = Model::open(directory + family).value();
    const auto inputs = SafetensorsFile::open(directory + family + "/inputs.safetensors").value();
    const auto expected =
        SafetensorsFile::open(directory + family + "/expected.safetensors").value();
    const auto ids = NamedInputs(inputs).integers("input_ids").value();
    const auto mask = NamedInputs(inputs).integers("attention_mask").value();
    const auto want = NamedInputs(expected).floats("logits").value();
    const auto shape = NamedInputs(inputs).shape("input_ids");
    const auto n = static_cast<std::size_t>(shape[1]);
    DeviceKv kv = loaded.decoder->make_kv(4, 64).value();
    std::vector<KvSequence> sequences(static_cast<std::size_t>(shape[0]));
    std::vector<std::vector<float>> rows(sequences.size());
    std::vector<Chunk> chunks;
    std::vector<float> kept;  // of what is no padding
    const std::size_t vocabulary = loaded.shape.vocabulary;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      for (std::size_t i = 0; i < n; ++i) {
        if (mask[s * n + i] == 0) continue;
        cpu.text().embed({&ids[s * n + i], 1}, rows[s]);
        kept.insert(kept.end(), &want[(s * n + i) * vocabulary],
                    &want[(s * n + i) * vocabulary] + vocabulary);
      }
      chunks.push_back({&sequences[s], rows[s]});
    }
    std::vector<float> hidden, logits;
    REQUIRE(loaded.decoder->forward(kv, chunks, hidden).ok());
    REQUIRE(loaded.decoder->logits(hidden, logits).ok());
    CHECK(distance(logits, kept) <= golden::limit);
  }
}

TEST_CASE("steps on the device go where the CPU's forward goes, in any batch") {
  if (!there()) return;
  for (const char* family : {"llama", "qwen2"}) {
    INFO(family);
    const Loaded loaded = load(family, DeviceDecoder::Precision::exact);
    const Model cpu = Model::open(directory + family).value();
    const Decoder& text = cpu.text();
    KvPool pool(text.kv_shape(4), 64);
    DeviceKv kv = loaded.decoder->make_kv(4, 64).value();
    std::vector<KvSequence> ours(3), theirs(3);
    std::vector<std::int32_t> last;
    std::vector<std::vector<float>> rows(3);
    std::vector<float> hidden, logits;
    std::vector<Chunk> chunks;
    for (std::size_t s = 0; s < 3; ++s) {
      const auto tokens = tokens_of(3 + 4 * s, loaded.shape.vocabulary, s);
      text.embed(tokens, rows[s]);
      chunks.push_back({&ours[s], rows[s]});
      const Chunk one{&theirs[s], rows[s]};
      REQUIRE(text.forward(pool, {&one, 1}, hidden).ok());
      last.push_back(tokens.back());
    }
    REQUIRE(loaded.decoder->forward(kv, chunks, hidden).ok());
    for (int round = 0; round < 4; ++round) {
      std::vector<DecodeStep> steps;
      const std::size_t count = round == 2 ? 1 : 3;  // one goes alone for once
      for (std::size_t s = 0; s < count; ++s)
        steps.push_back({&ours[s],
                         last[s],
                         Position::at(static_cast<std::int32_t>(ours[s].tokens())),
                         {},
                         {},
                         0});
      std::vector<std::int32_t> next;
      REQUIRE(loaded.decoder->step(kv, steps, next).ok());
      for (std::size_t s = 0; s < count; ++s) {
        std::vector<float> row;
        text.embed({&last[s], 1}, row);
        const Chunk one{&theirs[s], row};
        REQUIRE(text.forward(pool, {&one, 1}, hidden).ok());
        text.logits(hidden, logits);
        CHECK(next[s] == std::ranges::max_element(logits) - logits.begin());
        last[s] = next[s];
      }
    }
  }
}

TEST_CASE("steps on the device see each sequence's own history, as the CPU's choice does") {
  if (!there()) return;
  const Loaded loaded = load("qwen2", DeviceDecoder::Precision::exact);
  const Model cpu = Model::open(directory + "qwen2").value();
  const Decoder& text = cpu.text();
  KvPool pool(text.kv_shape(4), 64);
  DeviceKv kv = loaded.decoder->make_kv(4, 64).value();
  int punished = 0;
  for (const std::size_t longest :
       {1U, 9U, 40U, 90U}) {  // each needs more room than the one before
    std::vector<KvSequence> ours(3), theirs(3);
    std::vector<std::vector<std::int32_t>> histories(3);
    std::vector<DecodeStep> steps;
    std::vector<std::int32_t> want;
    for (std::size_t s = 0; s < 3; ++s) {
      const std::vector<std::int32_t> token{static_cast<std::int32_t>(5 + s)};
      std::vector<float> rows, hidden, logits;
      text.embed(token, rows);
      const Chunk chunk{&theirs[s], rows};
      REQUIRE(text.forward(pool, {&chunk, 1}, hidden).ok());
      text.logits(hidden, logits);
      // The likeliest tokens are those that were said: without the penalty they would come again.
      std::vector<std::int32_t> order(logits.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
      std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      });
      histories[s].assign(order.begin(),
                          order.begin() + static_cast<std::ptrdiff_t>(longest - (s == 1 ? 1 : 0)));
      kernels::SampleOptions options;
      options.repetition_penalty = 3;
      steps.push_back({&ours[s], token[0], Position::at(0), options, histories[s], 0});
      want.push_back(kernels::sample(logits, histories[s], options, 0));
      punished += want.back() != order[0] ? 1 : 0;
    }
    std::vector<std::int32_t> next;
    REQUIRE(loaded.decoder->step(kv, steps, next).ok());
    CHECK(next == want);
  }
  CHECK(punished > 3);
}

TEST_CASE("recorded steps go on when only the tables of rows have moved") {
  if (!there()) return;
  const Loaded loaded = load("llama", DeviceDecoder::Precision::exact);
  const Model cpu = Model::open(directory + "llama").value();
  const Decoder& text = cpu.text();
  KvPool pool(text.kv_shape(4), 16);
  DeviceKv kv = loaded.decoder->make_kv(4, 64).value();
  std::vector<float> rows, hidden, logits;
  text.embed(tokens_of(32, loaded.shape.vocabulary, 2), rows);
  KvSequence one, ours, theirs;
  const Chunk whole{&one, rows};
  REQUIRE(loaded.decoder->forward(kv, {&whole, 1}, hidden).ok());
  std::int32_t last = 7;
  const auto step = [&] {
    std::vector<std::int32_t> next;
    const auto at = Position::at(static_cast<std::int32_t>(ours.tokens()));
    const DecodeStep asked{&ours, last, at, {}, {}, 0};
    REQUIRE(loaded.decoder->step(kv, {&asked, 1}, next).ok());
    std::vector<float> row;
    text.embed({&last, 1}, row);
    const Chunk same{&theirs, row};
    REQUIRE(text.forward(pool, {&same, 1}, hidden).ok());
    text.logits(hidden, logits);
    last = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
    CHECK(next.front() == last);
  };
  for (int i = 0; i < 3; ++i) step();
  // As many rows as before and many more sequences: only their pages take more room.
  std::vector<KvSequence> each(32);
  std::vector<Chunk> chunks;
  const std::size_t width = loaded.shape.block.width;
  for (std::size_t i = 0; i < each.size(); ++i)
    chunks.push_back({&each[i], std::span(rows).subspan(i * width, width)});
  REQUIRE(loaded.decoder->forward(kv, chunks, hidden).ok());
  for (int i = 0; i < 6; ++i) step();
}

TEST_CASE("a generator on the device says what one on the CPU says") {
  if (!there()) return;
  const Model cpu = Model::open(directory + "qwen2").value();
  auto text =
      DeviceText::load(cpu.architecture(), cpu.file(), DeviceDecoder::Precision::exact, {4, 64});
  REQUIRE(text.ok());
  KvPool pool(cpu.text().kv_shape(4), 64);
  Generator ours(**text, nullptr, Budget{8, 4});
  Generator theirs(cpu.text(), pool, nullptr, Budget{8, 4});
  const auto asked = [&](std::uint64_t id) {
    Generation one;
    one.id = id;
    one.options.tokens_max = 5;
    one.options.seed = id;
    // Greedy; drawn, with a penalty; and one whose bias only the host can add.
    if (id == 1) one.options.sampling = {0.8F, 20, 0.95F, 0, 1.3F, {}};
    if (id == 2) one.options.sampling.bias = {{7, 100.0F}};
    one.history = tokens_of(4 + 5 * id, 128, 40 + id);
    cpu.text().embed(one.history, one.rows);
    return one;
  };
  for (std::uint64_t id = 0; id < 3; ++id) {
    ours.add(asked(id));
    theirs.add(asked(id));
  }
  std::vector<std::uint64_t> advanced;
  while (ours.busy()) ours.step(advanced);
  while (theirs.busy()) theirs.step(advanced);
  for (std::uint64_t id = 0; id < 3; ++id) {
    INFO("generation " << id);
    CHECK(ours.find(id)->tokens == theirs.find(id)->tokens);
    CHECK(ours.find(id)->tokens.size() == 5);
  }
  CHECK(ours.find(2)->tokens == std::vector<std::int32_t>(5, 7));
}

TEST_CASE("an action expert with adaptive norms moves on the device as on the CPU") {
  if (!there()) return;
  const std::string at = "weight.paligemma_with_expert.gemma_expert.model.";
  const auto file = SafetensorsFile::open(directory + "pi05/model.safetensors").value();
  const DecoderShape shape = Architecture::load(directory + "pi05")->action->expert;
  const DecoderNames names{"", at + "layers.", at + "norm", ""};
  const Decoder cpu = Decoder::load(shape, names, file).value();
  auto device = DeviceDecoder::load(shape, names, file, DeviceDecoder::Precision::exact);
  INFO((device.ok() ? "" : device.error().message));
  REQUIRE(device.ok());
  KvPool pool(cpu.kv_shape(4), 16);
  DeviceKv kv = (*device)->make_kv(4, 16).value();
  SplitMix64 random(3);
  Conditions conditions;  // of two
  for (std::size_t i = 0; i < shape.layers; ++i)
    conditions.layers.push_back(random_floats(2 * 6 * shape.block.width, random, 0.3));
  conditions.last = random_floats(2 * 3 * shape.block.width, random, 0.3);
  const auto rows = random_floats(9 * shape.block.width, random);
  std::vector<float> got, want;
  KvSequence ours[2], theirs[2];
  const auto chunks = [&](KvSequence* sequences) {
    const auto part = [&](std::size_t from, std::size_t count) {
      return std::span(rows).subspan(from * shape.block.width, count * shape.block.width);
    };
    return std::vector<Chunk>{{&sequences[0], part(0, 6), Mask::block, {}, {}, 1},
                              {&sequences[1], part(6, 3), Mask::block, {}, {}, 0}};
  };
  REQUIRE((*device)->forward(kv, chunks(ours), got, &conditions).ok());
  REQUIRE(cpu.forward(pool, chunks(theirs), want, &conditions).ok());
  CHECK(distance(got, want) < 5e-6);
  // The check sees another condition.
  for (std::size_t i = 0; i < 2; ++i) kv.pages.truncate(ours[i], 0);
  conditions.layers[0][1] += 0.5F;
  REQUIRE((*device)->forward(kv, chunks(ours), got, &conditions).ok());
  CHECK(distance(got, want) > 1e-4);
}

TEST_CASE("a vision tower's layers run on the device as a decoder without words") {
  if (!there()) return;
  const Model cpu = Model::open(directory + "siglip").value();
  const TowerShape& tower = cpu.vision().shape();
  DecoderShape shape;
  shape.block = tower.block;
  shape.layers = tower.layers;
  shape.positions_max = tower.patches();
  const DecoderNames names{"", "encoder.layers.", "post_layernorm", "", BlockNames::siglip()};
  auto device = DeviceDecoder::load(shape, names, cpu.file(), DeviceDecoder::Precision::exact);
  INFO((device.ok() ? "" : device.error().message));
  REQUIRE(device.ok());
  const auto inputs = SafetensorsFile::open(directory + "siglip/inputs.safetensors").value();
  const auto pixels = NamedInputs(inputs).floats("pixel_values").value();
  std::vector<float> rows, want, got;
  cpu.vision().encode(pixels, want, [&](std::size_t layer, std::span<const float> hidden) {
    if (layer == 0) rows.assign(hidden.begin(), hidden.end());
  });
  const std::size_t one = tower.patches() * tower.block.width;
  DeviceKv kv = (*device)->make_kv(4, (rows.size() / one) * (tower.patches() / 4 + 1)).value();
  std::vector<KvSequence> sequences(rows.size() / one);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    chunks.push_back({&sequences[i], std::span(rows).subspan(i * one, one), Mask::block});
  REQUIRE((*device)->forward(kv, chunks, got).ok());
  CHECK(distance(got, want) < 5e-6);
}

TEST_CASE("bf16 on the device stays near f32") {
  if (!there()) return;
  const Loaded narrow = load("llama", DeviceDecoder::Precision::bf16);
  const Loaded exact = load("llama", DeviceDecoder::Precision::exact);
  const Model cpu = Model::open(directory + "llama").value();
  std::vector<float> rows, got, want;
  cpu.text().embed(tokens_of(9, 128, 5), rows);
  for (const Loaded* one : {&narrow, &exact}) {
    DeviceKv kv = one->decoder->make_kv(16, 4).value();
    KvSequence sequence;
    const Chunk chunk{&sequence, rows};
    REQUIRE(one->decoder->forward(kv, {&chunk, 1}, one == &narrow ? got : want).ok());
  }
  CHECK(distance(got, want) < 2e-2);
  CHECK(distance(got, want) > 1e-5);  // it was bf16
}

TEST_CASE("a fork on the device has a page of its own when it writes, as on the CPU") {
  if (!there()) return;
  const Loaded loaded = load("llama", DeviceDecoder::Precision::exact);
  const Model cpu = Model::open(directory + "llama").value();
  DeviceKv kv = loaded.decoder->make_kv(4, 16).value();
  KvPool pool(cpu.text().kv_shape(4), 16);
  const std::size_t width = loaded.shape.block.width;
  std::vector<float> rows, got, want;
  cpu.text().embed(tokens_of(12, 128, 8), rows);
  KvSequence ours, theirs;
  const Chunk prompt{&ours, std::span(rows).first(6 * width)};
  const Chunk same{&theirs, std::span(rows).first(6 * width)};
  REQUIRE(loaded.decoder->forward(kv, {&prompt, 1}, got).ok());
  REQUIRE(cpu.text().forward(pool, {&same, 1}, want).ok());
  KvSequence our_fork = kv.pages.fork(ours), their_fork = pool.fork(theirs);
  for (std::size_t step = 0; step < 3; ++step) {
    const auto row = [&](std::size_t i) { return std::span(rows).subspan((6 + i) * width, width); };
    const Chunk here[] = {{&ours, row(step)}, {&our_fork, row(3 + step)}};
    const Chunk beside[] = {{&theirs, row(step)}, {&their_fork, row(3 + step)}};
    REQUIRE(loaded.decoder->forward(kv, here, got).ok());
    REQUIRE(cpu.text().forward(pool, beside, want).ok());
    CHECK(distance(got, want) < 5e-6);
  }
  CHECK(ours.pages()[0] == our_fork.pages()[0]);
  CHECK(ours.pages()[1] != our_fork.pages()[1]);
}

TEST_CASE("what does not fit is refused and changes nothing") {
  if (!there()) return;
  const Loaded loaded = load("llama", DeviceDecoder::Precision::exact);
  DeviceKv kv = loaded.decoder->make_kv(4, 2).value();
  std::vector<float> rows(9 * loaded.shape.block.width), hidden;
  KvSequence a, b;
  const Chunk chunks[] = {{&a, std::span(rows).first(3 * loaded.shape.block.width)}, {&b, rows}};
  const auto ran = loaded.decoder->forward(kv, chunks, hidden);
  REQUIRE(!ran.ok());
  CHECK(ran.error().code == ErrorCode::exhausted);
  CHECK(a.tokens() == 0);
  CHECK(kv.pages.pages_free() == 2);
  std::vector<std::int32_t> next;
  const DecodeStep outside{&a, 128, {}, {}, {}, 0};
  CHECK(!loaded.decoder->step(kv, {&outside, 1}, next).ok());
  // What the kernels' arithmetic does not reach.
  for (const std::size_t page_tokens : {std::size_t{0}, (std::size_t{1} << 16) + 1}) {
    const auto made = loaded.decoder->make_kv(page_tokens, 1);
    REQUIRE(!made.ok());
    CHECK(made.error().message.find(std::to_string(page_tokens) + " tokens of a page") !=
          std::string::npos);
  }
  const SafetensorsFile file = SafetensorsFile::random(1);
  const auto refused = [&](DecoderShape shape) {
    const DecoderNames names = find_decoder(file, shape);
    const auto decoder = DeviceDecoder::load(shape, names, file, DeviceDecoder::Precision::bf16);
    REQUIRE(!decoder.ok());
    CHECK(decoder.error().code == ErrorCode::invalid_argument);
    return decoder.error().message;
  };
  DecoderShape wide = loaded.shape;
  wide.block.head_dim = 264;
  CHECK(refused(wide) == "264 values of a head; a device's kernels take 1 to 256");
  DecoderShape far = loaded.shape;
  far.positions_max = (std::size_t{1} << 24) + 1;
  CHECK(refused(far) == "16777217 positions; a device's kernels take 1 to 16777216");
}

#ifndef SLUICE_CUDA
TEST_CASE("a device that fails behind the places of rows leaves sequences as they were") {
  const Loaded loaded = load("llama", DeviceDecoder::Precision::exact);
  DeviceKv kv = loaded.decoder->make_kv(4, 8).value();
  const std::vector<float> rows(6 * loaded.shape.block.width, 0.5F);
  std::vector<float> hidden;
  KvSequence a, b;
  const std::size_t width = loaded.shape.block.width;
  const Chunk chunks[] = {{&a, std::span(rows).first(3 * width)}, {&b, rows}};
  emulated::Fault fault{emulated::Fault::Of::waits};
  emulated::plan_fault(&fault);
  CHECK(!loaded.decoder->forward(kv, chunks, hidden).ok());
  CHECK(a.tokens() == 0);
  CHECK(b.tokens() == 0);
  CHECK(kv.pages.pages_free() == 8);
  REQUIRE(loaded.decoder->forward(kv, chunks, hidden).ok());
  std::vector<std::int32_t> next;
  const DecodeStep steps[] = {{&a, 1, Position::at(3), {}, {}, 0},
                              {&b, 2, Position::at(6), {}, {}, 0}};
  fault = {emulated::Fault::Of::waits};
  CHECK(!loaded.decoder->step(kv, steps, next).ok());
  CHECK(a.tokens() == 3);
  CHECK(b.tokens() == 6);
  CHECK(loaded.decoder->step(kv, steps, next).ok());
  CHECK(a.tokens() == 4);
  CHECK(b.tokens() == 7);
  emulated::plan_fault(nullptr);
}
#endif
