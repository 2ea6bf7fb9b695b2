#include "engine/device/device_flow.h"

#include <algorithm>

namespace sluice {

template <typename T>
DeviceFlow<T>::DeviceFlow(const ActionHead& head, DeviceWork& work)
    : head_(head), work_(work), expert_(head.shape.expert, work) {}

template <typename T>
void DeviceFlow<T>::load(WeightLoader& load, Uploader& up) {
  expert_.load(head_.expert, load, up);
  out_ = up.linear(head_.action_out);
  if (head_.family == Family::pi05) {
    in_ = up.linear(head_.action_in);
    return;
  }
  time_out_ = up.linear(head_.time_out);
  fold(up);
}

/// Of an action beside the time, the first layer is W a + V t + b with a = A x + c: here W A, and
/// the rest is a bias of the step.
template <typename T>
void DeviceFlow<T>::fold(Uploader& up) {
  const std::size_t width = head_.width();
  const std::size_t dims = head_.shape.dims;
  std::vector<float> columns(dims * 2 * width), row(dims), product(dims * width);
  for (std::size_t i = 0; i < width; ++i) {
    head_.action_in.weight.read_row(i, row);
    for (std::size_t d = 0; d < dims; ++d) columns[d * 2 * width + i] = row[d];
  }
  kernels::matmul_cpu(columns, head_.time_in.weight, {}, product, dims);
  std::vector<float> folded(width * dims);
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t d = 0; d < dims; ++d) folded[i * dims + d] = product[d * width + i];
  in_ = {up.matrix(folded), {}, width, dims};
}

template <typename T>
std::vector<float> DeviceFlow<T>::step_biases(const FlowSchedule& schedule) const {
  std::vector<float> joined, biases;
  if (head_.family == Family::pi05) return biases;
  for (const float time : schedule.times()) {
    const std::vector<float> waves = ActionHead::time_embedding(time, head_.width());
    joined.insert(joined.end(), head_.action_in.bias.begin(), head_.action_in.bias.end());
    joined.insert(joined.end(), waves.begin(), waves.end());
  }
  apply(head_.time_in, joined, biases);
  return biases;
}

template <typename T>
Result<void> DeviceFlow<T>::make_room(std::size_t steps, std::size_t requests) {
  const std::size_t width = head_.width();
  const std::size_t actions = requests * head_.shape.horizon;
  const std::size_t rows = requests * head_.suffix_rows();
  const std::size_t values = actions * head_.shape.dims;
  Room room;
  for (device::Memory* each : {&b_.x, &b_.velocity}) room.need(*each, values * sizeof(float));
  room.need(b_.x_typed, values * sizeof(T));
  for (device::Memory* each : {&b_.inner, &b_.out}) room.need(*each, rows * width * sizeof(T));
  room.need(b_.stacked, rows * width * sizeof(float));
  for (device::Memory* each : {&b_.into, &b_.from}) room.need(*each, rows * sizeof(std::int32_t));
  room.need(b_.biases, steps * width * sizeof(float));
  room.need(b_.dt, head_.shape.dims * sizeof(float));
  room.need(b_.condition, steps * rows * sizeof(std::uint32_t));
  if (room.moved()) ++moves_;
  return room.outcome();
}

template <typename T>
Result<void> DeviceFlow<T>::bring_conditions(const FlowSchedule& schedule) {
  if (!head_.shape.expert.block.adaptive) return {};
  auto table = head_.conditions(schedule);
  if (!table.ok()) return table.error();
  if (*table == brought_) return {};
  brought_ = nullptr;
  if (Result<void> done = expert_.bring(**table); !done.ok()) return done;
  brought_ = std::move(table).value();
  return {};
}

/// What a recording reads anew each time.
template <typename T>
void DeviceFlow<T>::upload(std::span<const ActionRequest> requests, const FlowSchedule& schedule) {
  const auto number = [](std::size_t value) { return static_cast<std::int32_t>(value); };
  const std::size_t rows = requests.size() * head_.suffix_rows();
  std::vector<float> x, states, state;
  std::vector<std::int32_t> into, from;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    x.insert(x.end(), requests[r].x.begin(), requests[r].x.end());
    if (!is_pi0()) continue;
    apply(head_.state, requests[r].state, state);
    states.insert(states.end(), state.begin(), state.end());
    into.push_back(number(r));
    for (std::size_t i = 0; i < head_.shape.horizon; ++i) {
      from.push_back(number(into.size()));
      into.push_back(number(requests.size() + r * head_.shape.horizon + i));
    }
  }
  std::vector<std::uint32_t> condition;
  for (std::uint32_t step = 0; step < schedule.times().size(); ++step)
    condition.insert(condition.end(), rows, step);
  work_.put(b_.x, x);
  work_.put(b_.stacked, states);
  work_.put(b_.into, into);
  work_.put(b_.from, from);
  work_.put(b_.biases, step_biases(schedule));
  work_.put(b_.dt, std::vector<float>(head_.shape.dims, schedule.dt()));
  work_.put(b_.condition, condition);
}

/// Actions as they are to the expert's rows.
template <typename T>
Result<void> DeviceFlow<T>::embed_actions(std::size_t step, std::size_t requests) {
  const std::size_t width = head_.width();
  const std::size_t actions = requests * head_.shape.horizon;
  T* typed = b_.x_typed.as<T>();
  device::gather_rows(b_.x.as<float>(), nullptr, actions, head_.shape.dims, 1, typed,
                      work_.stream());
  if (head_.family == Family::pi05) return work_.apply(in_, typed, expert_.hidden(), actions);
  T* inner = b_.inner.as<T>();
  if (auto done = work_.apply(in_, typed, inner, actions); !done.ok()) return done;
  const float* bias = b_.biases.as<float>() + step * width;
  device::activate(kernels::Activation::silu, inner, bias, actions, width, work_.stream());
  if (!is_pi0()) return work_.apply(time_out_, inner, expert_.hidden(), actions);
  float* stacked = b_.stacked.as<float>();
  auto done = work_.apply(time_out_, inner, stacked + requests * width, actions);
  device::gather_rows(stacked, b_.into.as<std::int32_t>(), expert_.rows(), width, 1,
                      expert_.hidden(), work_.stream());
  return done;
}

template <typename T>
Result<void> DeviceFlow<T>::run_step(DeviceKv& kv, std::size_t step, std::size_t requests) {
  const std::size_t width = head_.width();
  const std::size_t actions = requests * head_.shape.horizon;
  const std::uint32_t* condition = b_.condition.as<std::uint32_t>() + step * expert_.rows();
  if (auto done = embed_actions(step, requests); !done.ok()) return done;
  if (auto done = expert_.run(kv, Until::rows, condition); !done.ok()) return done;
  T* out = b_.out.as<T>();
  expert_.norm(out, condition);
  if (is_pi0()) {  // without the states' rows
    device::gather_rows(out, b_.from.as<std::int32_t>(), actions, width, 1, b_.inner.as<T>(),
                        work_.stream());
    out = b_.inner.as<T>();
  }
  if (auto done = work_.apply(out_, out, b_.velocity.as<float>(), actions); !done.ok()) return done;
  const device::Branch<float> moved{b_.velocity.as<float>(), nullptr, b_.dt.as<float>(), {}};
  device::add_rows(b_.x.as<float>(), moved, actions, head_.shape.dims, work_.stream());
  return {};
}

/// Who watches sees each step; else all of them are one recording.
template <typename T>
Result<void> DeviceFlow<T>::run_steps(DeviceKv& kv, std::size_t steps, std::size_t requests,
                                      const PolicyEngine::Watch& watch) {
  const auto all = [&]() -> Result<void> {
    for (std::size_t step = 0; step < steps; ++step)
      if (auto done = run_step(kv, step, requests); !done.ok()) return done;
    return {};
  };
  if (!watch)
    return recordings_.run(work_, {steps, requests, kv.number}, moves_ + expert_.moves(), all);
  std::vector<float> velocities(requests * head_.shape.horizon * head_.shape.dims);
  for (std::size_t step = 0; step < steps; ++step) {
    if (auto done = run_step(kv, step, requests); !done.ok()) return done;
    device::copy_out(velocities.data(), b_.velocity.as<void>(), velocities.size() * sizeof(float),
                     work_.stream());
    if (auto done = work_.synchronise(); !done.ok()) return done;
    watch(step, velocities);
  }
  return {};
}

template <typename T>
Result<void> DeviceFlow<T>::act(DeviceKv& kv, std::span<ActionRequest> requests,
                                const FlowSchedule& schedule, const PolicyEngine::Watch& watch) {
  if (Result<void> fits = head_.check(requests); !fits.ok() || requests.empty()) return fits;
  std::vector<std::vector<std::uint32_t>> sees;
  std::vector<DeviceChunk> chunks;
  for (const ActionRequest& request : requests)
    sees.push_back(head_.suffix_sees(request.prefix->tokens()));
  for (std::size_t r = 0; r < requests.size(); ++r)
    chunks.push_back({requests[r].prefix, head_.suffix_rows(), Mask::block, sees[r]});
  const std::size_t steps = schedule.times().size();
  if (Result<void> made = make_room(steps, requests.size()); !made.ok()) return made;
  if (Result<void> done = bring_conditions(schedule); !done.ok()) return done;
  if (Result<void> placed = expert_.place(kv, chunks); !placed.ok()) return placed;
  upload(requests, schedule);
  Result<void> done = expert_.look_across(kv, chunks);
  if (done.ok()) done = run_steps(kv, steps, requests.size(), watch);
  std::vector<float> x(requests.size() * requests.front().x.size());
  device::copy_out(x.data(), b_.x.as<void>(), x.size() * sizeof(float), work_.stream());
  if (Result<void> ended = work_.synchronise(); done.ok()) done = ended;
  for (const DeviceChunk& chunk : chunks)
    kv.pages.truncate(*chunk.sequence, chunk.sequence->tokens() - chunk.count);
  if (!done.ok()) return done;
  auto from = x.begin();
  for (ActionRequest& request : requests) {
    std::copy_n(from, request.x.size(), request.x.begin());
    from += static_cast<std::ptrdiff_t>(request.x.size());
  }
  return {};
}

template class DeviceFlow<float>;
template class DeviceFlow<device::Bf16>;

}  // namespace sluice
