#include "engine/device/device_decoder.h"

#include <type_traits>

#include "base/check.h"
#include "engine/device/device_layers.h"

namespace sluice {

namespace {

using device::Bf16;
using device::Memory;

/// What a choice of tokens reads and writes.
struct Choices {
  Memory rows, logits, next, scratch;
  DeviceTable tokens, options, history;
  DeviceTables tables;  // with these
};

/// Rows that have their places and did not get through the layers are in no sequence.
Result<void> or_take_back(Result<void> done, DeviceKv& kv, std::span<const DeviceChunk> placed) {
  if (done.ok()) return done;
  for (const DeviceChunk& chunk : placed)
    kv.pages.truncate(*chunk.sequence, chunk.sequence->tokens() - chunk.count);
  return done;
}

template <typename T>
class Impl final : public DeviceDecoder {
 public:
  Impl(const DecoderShape& shape, std::unique_ptr<DeviceWork> work)
      : work_(std::move(work)), layers_(shape, *work_) {}

  Result<void> load(const DecoderNames& names, const SafetensorsFile& file);
  const DecoderShape& shape() const override { return layers_.shape(); }
  Result<DeviceKv> make_kv(std::size_t page_tokens, std::size_t pages,
                           const PageKeys::Secret& secret) const override {
    return layers_.make_kv(page_tokens, pages, 0, secret);
  }
  device::Stream stream() const override { return work_->stream(); }
  Result<void> forward(DeviceKv& kv, std::span<const Chunk> chunks, std::vector<float>& hidden,
                       const Conditions* conditions) override;
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override;
  Result<void> step(DeviceKv& kv, std::span<const DecodeStep> steps,
                    std::vector<std::int32_t>& next) override;

 private:
  std::size_t width() const { return shape().block.width; }
  const DeviceLinear& head() const { return shape().tied ? embedding_ : head_; }
  Result<void> make_room(std::size_t choices);
  Result<void> run_placed(DeviceKv& kv, std::span<const Chunk> chunks,
                          std::span<const DeviceChunk> placed, std::vector<float>& hidden,
                          const Conditions* conditions);
  Result<void> run_steps(DeviceKv& kv, std::span<const DecodeStep> steps,
                         std::vector<std::int32_t>& next);
  Result<void> run_step(DeviceKv& kv, std::size_t count);
  Result<void> upload_choices(std::span<const DecodeStep> steps);

  std::unique_ptr<DeviceWork> work_;
  DeviceLayers<T> layers_;
  DeviceLinear embedding_, head_;
  Choices c_;
  std::size_t moves_ = 0;  // of our own
  Recordings recordings_;  // of steps of so many sequences over one pool
};

template <typename T>
Result<void> Impl<T>::load(const DecoderNames& names, const SafetensorsFile& file) {
  constexpr bool narrow = std::is_same_v<T, Bf16>;
  WeightLoader loader(file, narrow ? kernels::WeightFormat::bf16 : kernels::WeightFormat::exact);
  Uploader up(work_->stream(), narrow);
  const bool speaks = shape().vocabulary != 0;
  if (speaks) embedding_ = up.linear(load_embedding(loader, file, names, shape()));
  if (speaks && !shape().tied)
    head_ = up.linear(loader.linear(names.head, shape().vocabulary, width(), false));
  layers_.load(names, loader, up);
  if (Result<void> loaded = loader.outcome(); !loaded.ok()) return loaded;
  return up.outcome();
}

template <typename T>
Result<void> Impl<T>::make_room(std::size_t choices) {
  Room room;
  room.need(c_.rows, choices * width() * sizeof(T));
  room.need(c_.logits, choices * shape().vocabulary * sizeof(float));
  room.need(c_.next, choices * sizeof(std::int32_t));
  room.need(c_.scratch, device::sample_scratch(choices, shape().vocabulary));
  if (room.moved()) ++moves_;
  return room.outcome();
}

template <typename T>
Result<void> Impl<T>::forward(DeviceKv& kv, std::span<const Chunk> chunks,
                              std::vector<float>& hidden, const Conditions* conditions) {
  SLUICE_CHECK((conditions != nullptr) == shape().block.adaptive,
               "an adaptive decoder, and no other, takes a condition");
  std::vector<DeviceChunk> placed;
  for (const Chunk& chunk : chunks)
    placed.push_back({chunk.sequence, chunk.embeddings.size() / width(), chunk.mask, chunk.visible,
                      chunk.positions, chunk.condition});
  if (Result<void> done = layers_.place(kv, placed); !done.ok()) return done;
  if (layers_.rows() == 0) return {};
  return or_take_back(run_placed(kv, chunks, placed, hidden, conditions), kv, placed);
}

template <typename T>
Result<void> Impl<T>::run_placed(DeviceKv& kv, std::span<const Chunk> chunks,
                                 std::span<const DeviceChunk> placed, std::vector<float>& hidden,
                                 const Conditions* conditions) {
  if (conditions != nullptr)
    if (Result<void> done = layers_.bring(*conditions); !done.ok()) return done;
  if (Result<void> done = layers_.look_across(kv, placed); !done.ok()) return done;
  std::size_t at = 0;
  for (const Chunk& chunk : chunks) {
    work_->put(layers_.hidden() + at, chunk.embeddings);
    at += chunk.embeddings.size();
  }
  if (Result<void> done = layers_.run(kv, Until::rows); !done.ok()) return done;
  // The last norm in f32, into the rows themselves: a row is read whole before it is written.
  layers_.norm(layers_.hidden());
  hidden.resize(layers_.rows() * width());
  device::copy_out(hidden.data(), layers_.hidden(), hidden.size() * sizeof(float), work_->stream());
  return work_->synchronise();
}

template <typename T>
Result<void> Impl<T>::logits(std::span<const float> hidden, std::vector<float>& logits) {
  SLUICE_CHECK(shape().vocabulary != 0, "a decoder without a vocabulary has no logits");
  const std::size_t rows = hidden.size() / width();
  if (Result<void> made = make_room(rows); !made.ok()) return made;
  std::vector<T> narrowed(hidden.size());
  for (std::size_t i = 0; i < hidden.size(); ++i)
    if constexpr (std::is_same_v<T, Bf16>)
      narrowed[i] = device::narrow(hidden[i]);
    else
      narrowed[i] = hidden[i];
  work_->put(c_.rows, narrowed);
  if (auto done = work_->apply(head(), c_.rows.as<T>(), c_.logits.as<float>(), rows); !done.ok())
    return done;
  logits.resize(rows * shape().vocabulary);
  device::copy_out(logits.data(), c_.logits.as<float>(), logits.size() * sizeof(float),
                   work_->stream());
  return work_->synchronise();
}

template <typename T>
Result<void> Impl<T>::upload_choices(std::span<const DecodeStep> steps) {
  std::vector<std::int32_t> tokens, history;
  std::vector<device::SampleRow> options;
  for (const DecodeStep& step : steps) {
    const auto begin = static_cast<std::uint32_t>(history.size());
    history.insert(history.end(), step.history.begin(), step.history.end());
    tokens.push_back(step.token);
    options.push_back({step.sampling.temperature, step.sampling.top_p, step.sampling.min_p,
                       step.sampling.repetition_penalty,
                       static_cast<std::uint32_t>(step.sampling.top_k), begin,
                       static_cast<std::uint32_t>(history.size()), step.uniform});
  }
  // The history is last: a recording of so many steps serves whatever its length.
  const DeviceTables::Filled tables[] = {
      {c_.tokens, tokens}, {c_.options, options}, {c_.history, history}};
  return c_.tables.send(*work_, tables);
}

/// From tokens to the next ones; everything it reads is in the buffers.
template <typename T>
Result<void> Impl<T>::run_step(DeviceKv& kv, std::size_t count) {
  device::gather_rows(embedding_.weight.as<T>(), c_.tokens.as<std::int32_t>(), count, width(),
                      shape().embedding_scale, layers_.hidden(), work_->stream());
  if (auto done = layers_.run(kv, Until::rows); !done.ok()) return done;
  float* logits = c_.logits.as<float>();
  const Result<const float*> bias =
      work_->multiply_normed(head(), layers_.last_norm(), {}, c_.rows.as<T>(), logits, count);
  if (!bias.ok()) return bias.error();
  device::add_bias(logits, *bias, count, shape().vocabulary, work_->stream());
  device::sample(c_.logits.as<float>(), count, shape().vocabulary,
                 c_.options.as<device::SampleRow>(), c_.history.as<std::int32_t>(),
                 c_.scratch.as<void>(), c_.next.as<std::int32_t>(), work_->stream());
  return {};
}

template <typename T>
Result<void> Impl<T>::step(DeviceKv& kv, std::span<const DecodeStep> steps,
                           std::vector<std::int32_t>& next) {
  std::vector<DeviceChunk> placed;
  for (const DecodeStep& step : steps) {
    if (step.token < 0 || static_cast<std::size_t>(step.token) >= shape().vocabulary)
      return invalid_argument("token " + std::to_string(step.token) +
                              " is outside the vocabulary of " +
                              std::to_string(shape().vocabulary));
    if (!step.sampling.bias.empty())
      return invalid_argument("a bias of logits is not supported on the device");
    placed.push_back({step.sequence, 1, Mask::causal, {}, {&step.position, 1}});
  }
  if (steps.empty()) return {};
  if (Result<void> made = make_room(steps.size()); !made.ok()) return made;
  if (Result<void> done = layers_.place(kv, placed); !done.ok()) return done;
  return or_take_back(run_steps(kv, steps, next), kv, placed);
}

/// Of steps that have their places.
template <typename T>
Result<void> Impl<T>::run_steps(DeviceKv& kv, std::span<const DecodeStep> steps,
                                std::vector<std::int32_t>& next) {
  if (Result<void> sent = upload_choices(steps); !sent.ok()) return sent;
  const Recordings::Key key{steps.size(), 0, kv.number};
  Result<void> done = recordings_.run(*work_, key, moves_ + c_.tables.moves() + layers_.moves(),
                                      [&] { return run_step(kv, steps.size()); });
  if (!done.ok()) return done;
  next.resize(steps.size());
  device::copy_out(next.data(), c_.next.as<void>(), next.size() * sizeof(std::int32_t),
                   work_->stream());
  return work_->synchronise();
}

template <typename T>
Result<std::unique_ptr<DeviceDecoder>> make(const DecoderShape& shape, const DecoderNames& names,
                                            const SafetensorsFile& file) {
  auto work = DeviceWork::make();
  if (!work.ok()) return work.error();
  auto made = std::make_unique<Impl<T>>(shape, std::move(work).value());
  if (Result<void> loaded = made->load(names, file); !loaded.ok()) return loaded.error();
  return std::unique_ptr<DeviceDecoder>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<DeviceDecoder>> DeviceDecoder::load(const DecoderShape& shape,
                                                           const DecoderNames& names,
                                                           const SafetensorsFile& file,
                                                           Precision precision) {
  return precision == Precision::exact ? make<float>(shape, names, file)
                                       : make<Bf16>(shape, names, file);
}

}  // namespace sluice
