#include <algorithm>
#include <dnnl.hpp>
#include <exception>
#include <unordered_map>

#include "base/check.h"
#include "kernels/conv2d.h"
#include "kernels/onednn.h"
#include "kernels/parallel.h"

namespace sluice::kernels {

namespace {

using dnnl::memory;

memory::dim dim(std::size_t v) { return static_cast<memory::dim>(v); }

/// `plain` in the layout that the convolution wants.
memory in_layout(memory plain, const memory::desc& wanted, const dnnl::engine& engine,
                 dnnl::stream& stream) {
  if (plain.get_desc() == wanted) return plain;
  memory moved(wanted, engine);
  dnnl::reorder(plain, moved).execute(stream, plain, moved);
  return moved;
}

/// Rows of the output that one thread makes at once, at least.
constexpr std::size_t stripe_rows = 4;
constexpr std::size_t stripes_most = 32;
/// Outputs whose weights one thread moves at once: whole blocks in any of the library's layouts.
constexpr std::size_t moved_outs = 64;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  keep_library_on_this_thread();
  thread_local dnnl::stream of_thread(engine());
  return of_thread;
}

/// Some rows of the output, and the rows of the input that they see.
struct Stripe {
  std::size_t row, rows, from, from_rows, above, below;  // above, below: rows of padding

  Stripe(const ConvShape& s, std::size_t begin, std::size_t end) : row(begin), rows(end - begin) {
    const std::size_t pad = s.kernel / 2;
    const std::size_t first = begin * s.stride;  // of the padded input, as is `past`
    const std::size_t past = (end - 1) * s.stride + s.kernel;
    above = first < pad ? pad - first : 0;
    below = past > s.height + pad ? past - s.height - pad : 0;
    from = first + above - pad;
    from_rows = past - below - pad - from;
  }
};

struct Convolution {
  const ConvShape& shape;
  const float* x;
  const float* weight;
  const float* bias;
  float* y;

  static constexpr auto f32 = memory::data_type::f32;
  using tag = memory::format_tag;

  memory::dims weight_dims(std::size_t outs) const {
    return {dim(outs), dim(shape.in), dim(shape.kernel), dim(shape.kernel)};
  }
  /// Rows of all channels, as they lie in a picture of `height` rows.
  static memory rows_of(const float* data, std::size_t channels, std::size_t height,
                        std::size_t width, std::size_t row, std::size_t rows) {
    const memory::desc desc(
        {1, dim(channels), dim(rows), dim(width)}, f32,
        memory::dims{dim(channels * height * width), dim(height * width), dim(width), 1});
    return memory(desc, engine(), const_cast<float*>(data + row * width));
  }

  dnnl::convolution_forward::primitive_desc description(const Stripe& stripe) const {
    const memory::dims xs{1, dim(shape.in), dim(stripe.from_rows), dim(shape.width)};
    const memory::dims ys{1, dim(shape.out), dim(stripe.rows), dim(shape.out_width())};
    const memory::desc xd(xs, f32, tag::any), yd(ys, f32, tag::any);
    const memory::desc wd(weight_dims(shape.out), f32, tag::any);
    const memory::desc bd(memory::dims{dim(shape.out)}, f32, tag::a);
    const memory::dims strides{dim(shape.stride), dim(shape.stride)};
    const std::size_t pad = shape.kernel / 2;
    const memory::dims before{dim(stripe.above), dim(pad)}, after{dim(stripe.below), dim(pad)};
    constexpr auto kind = dnnl::prop_kind::forward_inference;
    constexpr auto how = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    return {engine(), kind, how, xd, wd, bd, yd, strides, before, after};
#else
    return {dnnl::convolution_forward::desc(kind, how, xd, wd, bd, yd, strides, before, after),
            engine()};
#endif
  }

  memory plain_weights(std::size_t out, std::size_t outs) const {
    return memory(memory::desc(weight_dims(outs), f32, tag::oihw), engine(),
                  const_cast<float*>(weight + out * shape.in * shape.taps()));
  }
  /// All weights in the layout that is wanted, moved by all threads.
  memory moved_weights(const memory::desc& wanted) const {
    const memory plain = plain_weights(0, shape.out);
    if (plain.get_desc() == wanted) return plain;
    if (shape.out % moved_outs != 0) return in_layout(plain, wanted, engine(), stream());
    const memory moved(wanted, engine());
    parallel_for(shape.out / moved_outs, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        memory from = plain_weights(i * moved_outs, moved_outs);
        memory to(wanted.submemory_desc(weight_dims(moved_outs), {dim(i * moved_outs), 0, 0, 0}),
                  engine(), moved.get_data_handle());
        dnnl::reorder(from, to).execute(stream(), from, to);
      }
    });
    return moved;
  }

  void make(const Stripe& stripe, const memory& weights) const {
    const auto wanted = description(stripe);
    const memory x_rows =
        rows_of(x, shape.in, shape.height, shape.width, stripe.from, stripe.from_rows);
    memory y_rows =
        rows_of(y, shape.out, shape.out_height(), shape.out_width(), stripe.row, stripe.rows);
    const bool direct = wanted.dst_desc() == y_rows.get_desc();
    memory made = direct ? y_rows : memory(wanted.dst_desc(), engine());
    const memory::desc bd(memory::dims{dim(shape.out)}, f32, tag::a);
    dnnl::convolution_forward(wanted).execute(
        stream(),
        std::unordered_map<int, memory>{
            {DNNL_ARG_SRC, in_layout(x_rows, wanted.src_desc(), engine(), stream())},
            {DNNL_ARG_WEIGHTS, weights.get_desc() == wanted.weights_desc()
                                   ? weights
                                   : in_layout(plain_weights(0, shape.out), wanted.weights_desc(),
                                               engine(), stream())},
            {DNNL_ARG_BIAS, memory(bd, engine(), const_cast<float*>(bias))},
            {DNNL_ARG_DST, made}});
    if (!direct) dnnl::reorder(made, y_rows).execute(stream(), made, y_rows);
    stream().wait();
  }
};

/// The library throws; nothing here is the user's, so a failure is a bug or no memory.
template <typename Work>
auto unfailing(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    check_failed(__FILE__, __LINE__, "oneDNN convolves", error.what());
  }
}

}  // namespace

void conv2d_cpu(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y) {
  const std::size_t pixels = shape.out_height() * shape.out_width();
  SLUICE_CHECK(
      x.size() >= shape.in * shape.height * shape.width && y.size() >= shape.out * pixels &&
          weight.f32().size() >= shape.out * shape.in * shape.taps() && bias.size() >= shape.out,
      "convolution sizes do not fit");
  if (pixels == 0) return;
  const Convolution convolution{shape, x.data(), weight.f32().data(), bias.data(), y.data()};
  const std::size_t rows = shape.out_height();
  const std::size_t stripes = std::clamp<std::size_t>(rows / stripe_rows, 1, stripes_most);
  const auto stripe = [&](std::size_t i) {
    return Stripe(shape, rows * i / stripes, rows * (i + 1) / stripes);
  };
  // A stripe in the middle is like most others.
  const memory weights = unfailing([&] {
    return convolution.moved_weights(convolution.description(stripe(stripes / 2)).weights_desc());
  });
  parallel_for(stripes, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      unfailing([&] { convolution.make(stripe(i), weights); });
  });
}

}  // namespace sluice::kernels
