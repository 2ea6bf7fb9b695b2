#include <dnnl.hpp>
#include <exception>
#include <unordered_map>

#include "base/check.h"
#include "kernels/conv2d.h"

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

void convolve(const ConvShape& s, const float* x, const float* weight, const float* bias,
              float* y) {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  thread_local dnnl::stream stream(engine);
  constexpr auto f32 = memory::data_type::f32;
  using tag = memory::format_tag;
  const memory::dims xs{1, dim(s.in), dim(s.height), dim(s.width)};
  const memory::dims ws{dim(s.out), dim(s.in), dim(s.kernel), dim(s.kernel)};
  const memory::dims ys{1, dim(s.out), dim(s.out_height()), dim(s.out_width())};
  const memory::desc xd(xs, f32, tag::any), wd(ws, f32, tag::any), yd(ys, f32, tag::any);
  const memory::desc bd(memory::dims{dim(s.out)}, f32, tag::a);
  const memory::dims strides{dim(s.stride), dim(s.stride)};
  const memory::dims pad{dim(s.kernel / 2), dim(s.kernel / 2)};
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  constexpr auto how = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc description(engine, kind, how, xd, wd, bd, yd,
                                                              strides, pad, pad);
#else
  const dnnl::convolution_forward::primitive_desc description(
      dnnl::convolution_forward::desc(kind, how, xd, wd, bd, yd, strides, pad, pad), engine);
#endif
  const auto plain = [&](const memory::dims& dims, tag layout, const float* data) {
    return memory(memory::desc(dims, f32, layout), engine, const_cast<float*>(data));
  };
  const memory x_plain = plain(xs, tag::nchw, x);
  const memory w_plain = plain(ws, tag::oihw, weight);
  memory y_plain = plain(ys, tag::nchw, y);
  const bool direct = description.dst_desc() == y_plain.get_desc();
  memory made = direct ? y_plain : memory(description.dst_desc(), engine);
  dnnl::convolution_forward(description)
      .execute(
          stream,
          std::unordered_map<int, memory>{
              {DNNL_ARG_SRC, in_layout(x_plain, description.src_desc(), engine, stream)},
              {DNNL_ARG_WEIGHTS, in_layout(w_plain, description.weights_desc(), engine, stream)},
              {DNNL_ARG_BIAS, memory(bd, engine, const_cast<float*>(bias))},
              {DNNL_ARG_DST, made}});
  if (!direct) dnnl::reorder(made, y_plain).execute(stream, made, y_plain);
  stream.wait();
}

}  // namespace

void conv2d_cpu(const ConvShape& shape, std::span<const float> x, const Weight& weight,
                std::span<const float> bias, std::span<float> y) {
  const std::size_t pixels = shape.out_height() * shape.out_width();
  SLUICE_CHECK(
      x.size() >= shape.in * shape.height * shape.width && y.size() >= shape.out * pixels &&
          weight.f32().size() >= shape.out * shape.in * shape.taps() && bias.size() >= shape.out,
      "convolution sizes do not fit");
  // The library throws; nothing here is the user's, so a failure is a bug or no memory.
  try {
    convolve(shape, x.data(), weight.f32().data(), bias.data(), y.data());
  } catch (const std::exception& error) {
    SLUICE_CHECK(false, error.what());
  }
}

}  // namespace sluice::kernels
