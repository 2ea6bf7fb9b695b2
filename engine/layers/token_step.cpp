#include "engine/layers/token_step.h"

#include "kernels/parallel.h"

namespace sluice {

namespace {

/// Products of attention that are worth a thread.
constexpr std::size_t values_per_thread = 1 << 16;

}  // namespace

std::size_t TokenStep::next() {
  BlockRows& rows = f_.rows;
  switch (loop_) {
    case Loop::down:
      if (++layer_ == f_.blocks.size()) return 0;
      [[fallthrough]];
    case Loop::none:
      enter_layer();
      block().norm_rows(f_.shape, 0, f_.hidden, nullptr, rows);
      rows.qkv.resize(block().qkv.weight.out());
      return open(Loop::qkv, block().qkv, rows.normed);
    case Loop::qkv:
      block().split(f_.shape, rows);
      f_.pages.store();
      return open_attention();
    case Loop::attention:
      rows.out.resize(f_.shape.width);
      return open(Loop::out, block().out, rows.mixed);
    case Loop::out:
      block().norm_rows(f_.shape, 1, f_.hidden, nullptr, rows);
      rows.up.resize(block().up.weight.out());
      return open(Loop::up, block().up, rows.normed);
    case Loop::up:
      rows.activated.resize(f_.shape.mlp);
      if (f_.shape.gated)
        kernels::gated_cpu(f_.shape.activation, rows.up, f_.shape.mlp, rows.activated);
      else
        kernels::activate_cpu(f_.shape.activation, rows.up);
      return open(Loop::down, block().down, f_.shape.gated ? rows.activated : rows.up);
  }
  return 0;
}

void TokenStep::enter_layer() {
  f_.pages.enter(layer_, f_.rows.k, f_.rows.v);
  f_.rows.turns = f_.layers_without_rope.empty() || !f_.layers_without_rope[layer_];
}

std::size_t TokenStep::open(Loop loop, const Linear& linear, std::span<const float> x) {
  loop_ = loop;
  f_.product.prepare(x, linear.weight, linear.bias, 1);
  count_ = f_.product.out();
  units_ = kernels::stream_units(count_, f_.product.grain(), f_.threads);
  return units_;
}

std::size_t TokenStep::open_attention() {
  loop_ = Loop::attention;
  f_.rows.mixed.resize(f_.rows.q.size());
  count_ = f_.attention.kv_heads;
  const std::size_t values = f_.visible * f_.attention.heads * f_.attention.head_dim;
  units_ = values < values_per_thread || f_.threads < 2 ? 1 : count_;
  return units_;
}

void TokenStep::part(std::size_t begin, std::size_t end) {
  begin = count_ * begin / units_;
  end = count_ * end / units_;
  BlockRows& rows = f_.rows;
  switch (loop_) {
    case Loop::qkv:
      return f_.product.compute(rows.qkv, begin, end);
    case Loop::attention:
      return f_.pages.attend_heads(f_.attention, rows.q, f_.visible, begin, end, rows.mixed);
    case Loop::up:
      return f_.product.compute(rows.up, begin, end);
    case Loop::out:
    case Loop::down:
      f_.product.compute(rows.out, begin, end);
      return kernels::add_cpu(f_.hidden.subspan(begin, end - begin),
                              std::span(rows.out).subspan(begin, end - begin));
    case Loop::none:
      return;
  }
}

}  // namespace sluice
