#include "engine/device/device_policy.h"

#include <type_traits>

#include "base/check.h"
#include "engine/device/device_flow.h"
#include "engine/device/device_tower.h"
#include "engine/family/model.h"

namespace sluice {

namespace {

using device::Bf16;

/// Where an observation's rows stand in its prefix.
struct Layout {
  std::size_t pictures = 0, picture_rows = 0, words = 0, state = 0;
  std::size_t rows() const { return picture_rows + words + state; }
};

template <typename T>
class Impl final : public PolicyEngine {
 public:
  Impl(const Architecture& architecture, const DecoderShape& trunk, ActionHead head,
       std::unique_ptr<DeviceWork> work)
      : architecture_(architecture),
        work_(std::move(work)),
        head_(std::move(head)),
        tower_(*architecture.vision, *work_),
        trunk_(trunk, *work_),
        flow_(head_, *work_) {}
  Result<void> load(const DecoderNames& trunk, const SafetensorsFile& file, std::size_t page_tokens,
                    std::size_t pages);

  const ActionHead& head() const override { return head_; }
  KvPages& pages() override { return kv_->pages; }
  Result<void> prefill(KvSequence& sequence, const Observation& observation,
                       std::vector<float>* hidden) override;
  Result<void> act(std::span<ActionRequest> requests, const FlowSchedule& schedule,
                   const Watch& watch) override {
    return flow_.act(*kv_, requests, schedule, watch);
  }

 private:
  std::size_t merged() const { return architecture_.pixel_shuffle * architecture_.pixel_shuffle; }
  Result<Layout> lay_out(const Observation& observation) const;
  Result<void> make_room(const Layout& layout);
  Result<void> put_pictures(std::span<const float> pixels, const Layout& layout);
  void put_words(std::span<const std::int32_t> tokens, std::size_t at);
  void put_state(std::span<const float> state, std::size_t at);
  Result<void> fill(const Observation& observation, const Layout& layout,
                    std::vector<float>* hidden);

  Architecture architecture_;
  std::unique_ptr<DeviceWork> work_;
  ActionHead head_;
  DeviceTower<T> tower_;
  DeviceLayers<T> trunk_;
  DeviceFlow<T> flow_;
  DeviceLinear projector_, embedding_;
  std::optional<DeviceKv> kv_;
  device::Memory tokens_, order_, shuffled_;
};

template <typename T>
Result<void> Impl<T>::load(const DecoderNames& trunk, const SafetensorsFile& file,
                           std::size_t page_tokens, std::size_t pages) {
  constexpr bool narrow = std::is_same_v<T, Bf16>;
  WeightLoader loader(file, narrow ? kernels::WeightFormat::bf16 : kernels::WeightFormat::exact);
  Uploader up(work_->stream(), narrow);
  tower_.load(find_tower(file, architecture_), loader, up);
  projector_ = up.linear(load_projector(loader, file, architecture_));
  embedding_ = up.linear(load_embedding(loader, file, trunk, trunk_.shape()));
  trunk_.load(trunk, loader, up);
  flow_.load(loader, up);
  if (Result<void> loaded = loader.outcome(); !loaded.ok()) return loaded;
  if (Result<void> sent = up.outcome(); !sent.ok()) return sent;
  Result<DeviceKv> kv = flow_.make_kv(page_tokens, pages);
  if (!kv.ok()) return kv.error();
  kv_ = std::move(kv).value();
  return {};
}

template <typename T>
Result<Layout> Impl<T>::lay_out(const Observation& observation) const {
  if (Result<void> fits = head_.check(observation); !fits.ok()) return fits.error();
  const TowerShape& tower = *architecture_.vision;
  const std::size_t picture = 3 * tower.side * tower.side;
  if (observation.pictures.size() % picture != 0)
    return invalid_argument("pictures must be 3 x " + std::to_string(tower.side) + " x " +
                            std::to_string(tower.side));
  const std::size_t vocabulary = trunk_.shape().vocabulary;
  for (std::size_t i = 0; i < observation.tokens.size(); ++i)
    if (const std::int32_t token = observation.tokens[i];
        token < 0 || static_cast<std::size_t>(token) >= vocabulary)
      return invalid_argument("token " + std::to_string(token) + " at " + std::to_string(i) +
                              " is outside the vocabulary of " + std::to_string(vocabulary));
  Layout layout;
  layout.pictures = observation.pictures.size() / picture;
  layout.picture_rows = layout.pictures * tower.patches() / merged();
  layout.words = observation.tokens.size();
  layout.state = head_.family == Family::smolvla ? 1 : 0;
  if (layout.rows() == 0) return invalid_argument("an observation has neither pictures nor words");
  return layout;
}

template <typename T>
Result<void> Impl<T>::make_room(const Layout& layout) {
  Room room;
  room.need(tokens_, layout.words * sizeof(std::int32_t));
  if (merged() > 1) {
    const std::size_t patches = layout.picture_rows * merged();
    room.need(order_, patches * sizeof(std::int32_t));
    room.need(shuffled_, patches * architecture_.vision->block.width * sizeof(T));
  }
  return room.outcome();
}

/// Pictures through the tower and the projector, to the trunk's first rows.
template <typename T>
Result<void> Impl<T>::put_pictures(std::span<const float> pixels, const Layout& layout) {
  if (layout.pictures == 0) return {};
  Result<const T*> seen = tower_.encode(pixels);
  if (!seen.ok()) return seen.error();
  const T* rows = *seen;
  if (merged() > 1) {
    const TowerShape& tower = *architecture_.vision;
    // Which row comes where, by rows that hold their own number. Exact: there are fewer than 2^24.
    std::vector<float> numbers(layout.pictures * tower.patches());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    const std::vector<float> moved =
        merge_neighbours(numbers, tower.side / tower.patch, 1, architecture_.pixel_shuffle);
    work_->put(order_, std::vector<std::int32_t>(moved.begin(), moved.end()));
    device::gather_rows(rows, order_.as<std::int32_t>(), numbers.size(), tower.block.width, 1,
                        shuffled_.as<T>(), work_->stream());
    rows = shuffled_.as<T>();
  }
  Result<void> done = work_->apply(projector_, rows, trunk_.hidden(), layout.picture_rows);
  if (head_.family == Family::smolvla)
    device::gather_rows(trunk_.hidden(), nullptr, layout.picture_rows, trunk_.shape().block.width,
                        trunk_.shape().embedding_scale, trunk_.hidden(), work_->stream());
  return done;
}

template <typename T>
void Impl<T>::put_words(std::span<const std::int32_t> tokens, std::size_t at) {
  work_->put(tokens_, tokens);
  const std::size_t width = trunk_.shape().block.width;
  device::gather_rows(embedding_.weight.as<T>(), tokens_.as<std::int32_t>(), tokens.size(), width,
                      trunk_.shape().embedding_scale, trunk_.hidden() + at * width,
                      work_->stream());
}

template <typename T>
void Impl<T>::put_state(std::span<const float> state, std::size_t at) {
  std::vector<float> row;
  apply(head_.state, state, row);
  work_->put(trunk_.hidden() + at * trunk_.shape().block.width, row);
}

template <typename T>
Result<void> Impl<T>::fill(const Observation& observation, const Layout& layout,
                           std::vector<float>* hidden) {
  if (Result<void> done = make_room(layout); !done.ok()) return done;
  if (Result<void> done = put_pictures(observation.pictures, layout); !done.ok()) return done;
  put_words(observation.tokens, layout.picture_rows);
  if (layout.state != 0) put_state(observation.state, layout.picture_rows + layout.words);
  Result<void> done = trunk_.run(*kv_, hidden != nullptr ? Until::rows : Until::keys);
  if (!done.ok()) return done;
  if (hidden != nullptr) {
    trunk_.norm(trunk_.hidden());
    hidden->resize(layout.rows() * trunk_.shape().block.width);
    device::copy_out(hidden->data(), trunk_.hidden(), hidden->size() * sizeof(float),
                     work_->stream());
  }
  return work_->synchronise();
}

template <typename T>
Result<void> Impl<T>::prefill(KvSequence& sequence, const Observation& observation,
                              std::vector<float>* hidden) {
  SLUICE_CHECK(sequence.tokens == 0, "a prefix is written to an empty sequence");
  const Result<Layout> layout = lay_out(observation);
  if (!layout.ok()) return layout.error();
  const auto sees = head_.prefix_sees(layout->rows(), layout->picture_rows);
  const DeviceChunk chunk{&sequence, layout->rows(), Mask::block, sees};
  if (Result<void> placed = trunk_.place(*kv_, {&chunk, 1}); !placed.ok()) return placed;
  Result<void> filled = fill(observation, *layout, hidden);
  if (!filled.ok()) kv_->pages.truncate(sequence, 0);
  return filled;
}

template <typename T>
Result<std::unique_ptr<PolicyEngine>> make(const Architecture& architecture,
                                           const SafetensorsFile& file, std::size_t page_tokens,
                                           std::size_t pages) {
  // What the host computes of it is little, and exact.
  Result<ActionHead> head = ActionHead::load(architecture, file, kernels::WeightFormat::exact);
  if (!head.ok()) return head.error();
  auto work = DeviceWork::make();
  if (!work.ok()) return work.error();
  DecoderShape trunk = *architecture.text;
  const DecoderNames names = find_decoder(file, trunk);
  auto made = std::make_unique<Impl<T>>(architecture, trunk, std::move(head).value(),
                                        std::move(work).value());
  if (Result<void> loaded = made->load(names, file, page_tokens, pages); !loaded.ok())
    return loaded.error();
  return std::unique_ptr<PolicyEngine>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<PolicyEngine>> load_device_policy(const Architecture& architecture,
                                                         const SafetensorsFile& file,
                                                         DeviceDecoder::Precision precision,
                                                         std::size_t page_tokens,
                                                         std::size_t pages) {
  if (!architecture.action.has_value() || !architecture.vision.has_value() ||
      !architecture.text.has_value())
    return invalid_argument("the model is no policy; pi0, pi05 and smolvla are");
  if (architecture.vision->extra() != 0)
    return invalid_argument("a policy's tower has no class token on the device");
  return precision == DeviceDecoder::Precision::exact
             ? make<float>(architecture, file, page_tokens, pages)
             : make<Bf16>(architecture, file, page_tokens, pages);
}

}  // namespace sluice
