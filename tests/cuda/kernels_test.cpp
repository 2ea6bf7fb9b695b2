// Each kernel of the GPU against the CPU's reference; odd sizes, f32 and bf16.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/attention.h"
#include "on_device.h"

using namespace sluice;
using namespace sluice::device;

TEMPLATE_TEST_CASE("norms, with and without weights and modulation", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(1);
  for (const std::size_t width : {1, 31, 64, 300, 1025, 2056}) {
    const std::size_t rows = 3;
    const auto x = random_floats(rows * width, random, 2);
    const auto weight = random_floats(width, random);
    const auto bias = random_floats(width, random);
    const auto modulation = random_floats(2 * 3 * width, random);
    const std::vector<std::uint32_t> condition{1, 0, 1};
    const OnDevice<float> dx(x), dw(weight), db(bias), dm(modulation);
    const OnDevice<std::uint32_t> dc(condition);
    const OnDevice<T> dy(x.size());
    std::vector<float> want(x.size());
    norm_rows<T>({dx, true, dw, nullptr, 1e-5F, {}}, rows, width, dy, nullptr);
    kernels::rms_norm_ref(x, width, weight, 1e-5F, want);
    CHECK(distance(floats(dy.read()), want) < rounding<T>);
    norm_rows<T>({dx, false, dw, db, 1e-5F, {}}, rows, width, dy, nullptr);
    kernels::layer_norm_ref(x, width, weight, bias, 1e-5F, want);
    CHECK(distance(floats(dy.read()), want) < rounding<T>);
    norm_rows<T>({dx, false, nullptr, nullptr, 1e-5F, {dm, dc, 3 * width}}, rows, width, dy,
                 nullptr);
    kernels::layer_norm_ref(x, width, {}, {}, 1e-5F, want);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto part = std::span(modulation).subspan(condition[row] * 3 * width, 3 * width);
      kernels::modulate_ref(std::span(want).subspan(row * width, width), part.first(width),
                            part.subspan(width, width));
    }
    if (width > 1) CHECK(distance(floats(dy.read()), want) < rounding<T>);
    // The check sees another eps.
    kernels::layer_norm_ref(x, width, {}, {}, 0.1F, want);
    CHECK(distance(floats(dy.read()), want) > rounding<T>);
  }
}

TEMPLATE_TEST_CASE("activations, gates, sums and embeddings", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(2);
  const std::size_t rows = 5, width = GENERATE(as<std::size_t>{}, 77, 96, 2056);
  for (const auto kind :
       {kernels::Activation::silu, kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf}) {
    const auto x = typed<T>(random_floats(rows * 2 * width, random, 3));
    const OnDevice<T> dx(x), dy(rows * width);
    std::vector<float> want(rows * width);
    const auto bias = random_floats(2 * width, random);
    const OnDevice<float> dbias(bias);
    for (const bool biased : {false, true}) {
      std::vector<float> all = floats(x);
      for (std::size_t i = 0; biased && i < all.size(); ++i) all[i] += bias[i % (2 * width)];
      const float* given = biased ? static_cast<float*>(dbias) : nullptr;
      gated<T>(kind, dx, given, rows, width, dy, nullptr);
      kernels::gated_ref(kind, all, width, want);
      CHECK(distance(floats(dy.read()), want) < rounding<T>);
      const OnDevice<T> changed(x);
      activate<T>(kind, changed, given, rows, 2 * width, nullptr);
      kernels::activate_ref(kind, all);
      CHECK(distance(floats(changed.read()), all) < rounding<T>);
    }
  }
  const auto hidden = random_floats(rows * width, random);
  const auto branch = typed<T>(random_floats(rows * width, random));
  const auto scale = random_floats(width, random);
  const auto gates = random_floats(3 * width, random);
  const OnDevice<float> dh(hidden), ds(scale), dg(gates);
  const OnDevice<T> db(branch);
  const OnDevice<std::uint32_t> none(rows);
  const auto shift = random_floats(width, random);
  const OnDevice<float> dshift(shift);
  add_rows<T>(dh, {db, dshift, ds, {dg, none, 3 * width}}, rows, width, nullptr);
  std::vector<float> want = hidden;
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] +=
        (floats(branch)[i] + shift[i % width]) * scale[i % width] * gates[2 * width + i % width];
  CHECK(distance(dh.read(), want) < 3e-6);
  const OnDevice<float> both(hidden);
  const OnDevice<T> apart(want.size()), joined(want.size());
  norm_rows<T>({dh, true, ds, nullptr, 1e-5F, {}}, rows, width, apart, nullptr);
  add_and_norm<T>({both, true, ds, nullptr, 1e-5F, {}}, {db, dshift, ds, {dg, none, 3 * width}},
                  rows, width, joined, nullptr);
  CHECK(both.read() == dh.read());
  CHECK(floats(joined.read()) == floats(apart.read()));
  const OnDevice<T> biased(branch);
  add_bias<T>(biased, ds, rows, width, nullptr);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = floats(branch)[i] + scale[i % width];
  CHECK(distance(floats(biased.read()), want) < rounding<T>);

  const auto table = typed<T>(random_floats(9 * width, random));
  const OnDevice<T> dt(table);
  const OnDevice<std::int32_t> tokens(std::vector<std::int32_t>{8, 0, 3});
  const OnDevice<float> out(3 * width);
  gather_rows<T>(dt, tokens, 3, width, 2.5F, static_cast<float*>(out), nullptr);
  const auto got = out.read();
  for (std::size_t i = 0; i < width; ++i) {
    CHECK(got[i] == floats(table)[8 * width + i] * 2.5F);
    CHECK(got[2 * width + i] == floats(table)[3 * width + i] * 2.5F);
  }
}

TEMPLATE_TEST_CASE("matrix-vector products of few rows", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(3);
  for (const auto& [most, out, in] : {std::array<std::size_t, 3>{1, 5, 8},
                                      {4, 67, 256},
                                      {3, 1, 1},
                                      {2, 9, 301},
                                      {4, 33, 1032},
                                      {1, 5, 4104},
                                      {4, 3, 8192}}) {
    const std::size_t rows = std::min(most, matvec_rows<T>);
    const auto x = typed<T>(random_floats(rows * in, random));
    const auto w = typed<T>(random_floats(out * in, random));
    const auto bias = random_floats(out, random);
    const OnDevice<T> dx(x), dw(w);
    const OnDevice<float> db(bias), dy(rows * out);
    matvec<T, float>(dx, dw, db, dy, rows, out, in, nullptr);
    std::vector<float> want(rows * out);
    const auto fx = floats(x), fw = floats(w);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < out; ++o) {
        double sum = bias[o];
        for (std::size_t i = 0; i < in; ++i) sum += double{fx[r * in + i]} * double{fw[o * in + i]};
        want[r * out + o] = static_cast<float>(sum);
      }
    CHECK(distance(dy.read(), want) < 3e-6);
    const OnDevice<T> narrow_y(rows * out);
    matvec<T, T>(dx, dw, nullptr, narrow_y, rows, out, in, nullptr);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] -= bias[i % out];
    CHECK(distance(floats(narrow_y.read()), want) < 2 * rounding<T>);
  }
}

TEMPLATE_TEST_CASE("products of few rows take the norm before them and what follows", "", float,
                   Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(30);
  for (const auto& [most, out, in] : {std::array<std::size_t, 3>{1, 6, 64},
                                      {2, 70, 264},
                                      {3, 9, 77},
                                      {4, 5, 1032},
                                      {1, 2300, 2056}}) {
    const std::size_t rows = std::min(most, matvec_rows<T>);
    CAPTURE(rows, out, in);
    REQUIRE(fits_normed<T>(rows, in));
    const OnDevice<float> hidden(random_floats(rows * in, random, 2));
    const OnDevice<float> weight(random_floats(in, random)), bias(random_floats(2 * out, random));
    const OnDevice<float> scale(random_floats(out, random));
    const OnDevice<float> gates(random_floats(2 * 3 * (in + out), random));
    const OnDevice<std::uint32_t> condition(std::vector<std::uint32_t>{1, 0, 1, 0});
    const OnDevice<T> w(typed<T>(random_floats(2 * out * in, random)));
    const Norm norm{hidden, out != 70, weight, nullptr, 1e-5F, {gates, condition, 3 * in}};
    const OnDevice<T> normed(rows * in), both(rows * 2 * out), want(rows * out), got(rows * out);
    norm_rows<T>(norm, rows, in, normed, nullptr);

    matvec<T, T>(normed, w, bias, want, rows, out, in, nullptr);
    matvec_normed<T, T>(norm, w, bias, got, rows, out, in, nullptr);
    CHECK(distance(floats(got.read()), floats(want.read())) < 1e-6);

    const auto before = random_floats(rows * out, random);
    const OnDevice<float> apart(before), added(before);
    const Modulated modulated{gates, condition, 3 * out};
    add_rows<T>(apart, {want, nullptr, scale, modulated}, rows, out, nullptr);
    matvec_added<T>(normed, w, bias, scale, modulated, added, rows, out, in, nullptr);
    CHECK(distance(added.read(), apart.read()) < rounding<T>);
    CHECK(distance(added.read(), before) > rounding<T>);

    matvec<T, T>(normed, w, bias, both, rows, 2 * out, in, nullptr);
    gated<T>(kernels::Activation::silu, both, nullptr, rows, out, want, nullptr);
    matvec_gated<T>(norm, kernels::Activation::silu, w, bias, got, rows, out, in, nullptr);
    CHECK(distance(floats(got.read()), floats(want.read())) < 2 * rounding<T>);
  }
  CHECK_FALSE(fits_normed<T>(matvec_rows<T> + 1, 8));
  CHECK_FALSE(fits_normed<T>(1, 1U << 16U));
}

namespace {

/// Sequences in shuffled pages, on both sides.
template <typename T>
struct Paged {
  std::size_t kv_heads, head_dim, page_tokens, layers = 2, layer = 1;
  std::vector<std::size_t> lengths;
  std::size_t pages_max = 0, page_count = 0;
  std::vector<std::uint32_t> table;
  std::vector<float> store;  // as the device sees it

  void fill(SplitMix64& random) {
    for (const std::size_t n : lengths)
      pages_max = std::max(pages_max, (n + page_tokens - 1) / page_tokens);
    page_count = lengths.size() * pages_max;
    table.resize(page_count);
    std::iota(table.begin(), table.end(), 0U);
    for (std::size_t i = page_count; i > 1; --i) std::swap(table[i - 1], table[random.next() % i]);
    store = floats(typed<T>(random_floats(page_count * page_floats(), random)));
  }
  std::size_t row() const { return kv_heads * head_dim; }
  std::size_t page_floats() const { return layers * 2 * page_tokens * row(); }
  const float* part(std::size_t sequence, std::size_t page, bool values) const {
    return &store[table[sequence * pages_max + page] * page_floats() +
                  (layer * 2 + (values ? 1 : 0)) * page_tokens * row()];
  }
};

/// What a row sees of its sequence: what came before it and itself, all, or any number of tokens.
enum class Sight : std::uint8_t { causal, all, any };

struct AttentionCase {
  std::size_t heads, kv_heads, head_dim, page_tokens;
  std::vector<std::size_t> before, rows;  // of each sequence
  Sight sight;
  std::size_t shift = 0;  // values by which memory does not begin on 16 bytes
};

std::size_t seen(const AttentionCase& c, std::size_t sequence, std::size_t row) {
  const std::size_t all = c.before[sequence] + c.rows[sequence];
  if (c.sight == Sight::all) return all;
  return c.sight == Sight::causal ? c.before[sequence] + row + 1 : (row * 37 + 11) % all + 1;
}

/// The rows of a case, on both sides.
template <typename T>
struct Attending {
  AttentionCase c;
  Paged<T> paged;
  std::vector<std::uint32_t> sequence, place, visible;
  std::vector<RowRun> runs;
  std::size_t most = 0;
  std::vector<T> q;

  Attending(const AttentionCase& attending, SplitMix64& random)
      : c(attending), paged{c.kv_heads, c.head_dim, c.page_tokens, 2, 1, {}, 0, 0, {}, {}} {
    const auto number = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
    for (std::size_t s = 0; s < c.rows.size(); ++s) {
      paged.lengths.push_back(c.before[s] + c.rows[s]);
      runs.push_back({number(place.size()), number(c.rows[s])});
      most = std::max(most, c.rows[s]);
      for (std::size_t i = 0; i < c.rows[s]; ++i) {
        sequence.push_back(number(s));
        place.push_back(number(c.before[s] + i));
        visible.push_back(number(seen(c, s, i)));
      }
    }
    paged.fill(random);
    q = typed<T>(random_floats(place.size() * c.heads * c.head_dim, random));
  }
  kernels::HeadShape shape() const { return {c.heads, c.kv_heads, c.head_dim}; }

  std::vector<float> want() const {
    std::vector<std::vector<const float*>> keys(c.rows.size()), values(c.rows.size());
    std::vector<kernels::PagedSequence> sequences;
    for (std::size_t s = 0; s < c.rows.size(); ++s) {
      for (std::size_t p = 0; p < paged.pages_max; ++p) {
        keys[s].push_back(paged.part(s, p, false));
        values[s].push_back(paged.part(s, p, true));
      }
      sequences.push_back({keys[s], values[s]});
    }
    std::vector<float> mixed(q.size());
    kernels::attention_ref({c.heads, c.kv_heads, c.head_dim, c.page_tokens}, floats(q), sequence,
                           visible, sequences, mixed);
    return mixed;
  }
  /// Of the kernels, in each of these numbers of parts. What they do not write stays no number.
  std::vector<std::vector<float>> got(std::initializer_list<std::size_t> splits) const {
    std::vector<float> values(c.shift);
    values.insert(values.end(), paged.store.begin(), paged.store.end());
    const OnDevice<T> dq(q), store(typed<T>(values));
    const OnDevice<std::uint32_t> ds(sequence), dp(place), dv(visible), dt(paged.table);
    const OnDevice<RowRun> dr(runs);
    const Pages<T> pages{store + c.shift, paged.layers, paged.row(), paged.page_tokens};
    std::vector<std::vector<float>> results;
    for (const std::size_t parts : splits) {
      const OnDevice<float> scratch(
          std::vector<float>(attention_scratch(shape(), place.size(), parts), NAN));
      const OnDevice<T> out(typed<T>(std::vector<float>(q.size(), NAN)));
      attention<T>(shape(), dq, place.size(), dr, runs.size(), most, pages, paged.layer,
                   {ds, dp, dv, dt, paged.pages_max}, parts, scratch, out, nullptr);
      results.push_back(floats(out.read()));
    }
    return results;
  }
};

}  // namespace

TEMPLATE_TEST_CASE("paged attention of mixed rows, in one part and in several", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(4);
  for (const AttentionCase& c :
       {AttentionCase{4, 2, 16, 4, {0, 9, 40}, {5, 1, 3}, Sight::causal},
        AttentionCase{8, 1, 64, 16, {7, 0}, {1, 20}, Sight::all},
        AttentionCase{3, 3, 10, 3, {0, 70}, {1, 2}, Sight::causal},
        AttentionCase{2, 2, 256, 16, {130}, {1}, Sight::causal},
        AttentionCase{2, 1, 8, 16, {600}, {2}, Sight::causal},
        AttentionCase{14, 2, 72, 16, {33, 3}, {1, 1}, Sight::causal},
        // Few rows: all widths of a group of lanes, heads that do not fill it, one query to eight.
        AttentionCase{3, 1, 16, 16, {300}, {1}, Sight::causal},
        AttentionCase{6, 1, 36, 5, {90, 2}, {1, 1}, Sight::causal},
        AttentionCase{2, 2, 40, 7, {61}, {2}, Sight::any},
        AttentionCase{9, 3, 64, 16, {250, 31}, {1, 1}, Sight::causal},
        AttentionCase{3, 1, 80, 16, {150}, {2}, Sight::any},
        AttentionCase{6, 2, 96, 4, {75}, {1}, Sight::causal},
        AttentionCase{12, 2, 128, 16, {150}, {1}, Sight::causal},
        AttentionCase{12, 2, 128, 16, {40}, {2}, Sight::any},
        AttentionCase{8, 1, 256, 16, {70, 3}, {1, 1}, Sight::causal},
        AttentionCase{4, 2, 64, 16, {100}, {1}, Sight::causal, 1},
        // Many rows: on tensor cores in bf16, with heads that are no whole tiles, and whole ones.
        AttentionCase{4, 4, 72, 16, {0, 5}, {70, 33}, Sight::all},
        AttentionCase{4, 2, 128, 16, {40}, {37}, Sight::causal},
        AttentionCase{4, 1, 256, 16, {3, 0}, {19, 1}, Sight::causal},
        AttentionCase{2, 2, 10, 3, {4, 0}, {21, 40}, Sight::causal},
        AttentionCase{6, 2, 80, 4, {0, 64}, {65, 32}, Sight::all},
        AttentionCase{8, 1, 256, 16, {60}, {51}, Sight::any},
        AttentionCase{3, 1, 96, 16, {0, 7}, {51, 2}, Sight::any},
        AttentionCase{2, 1, 35, 4, {20}, {30}, Sight::any},
        AttentionCase{1, 1, 40, 16, {30}, {51}, Sight::causal, 3}}) {
    const Attending<T> attending(c, random);
    const std::vector<float> want = attending.want();
    const auto got = attending.got({1, 5, 64});
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO(c.heads << " heads of " << c.head_dim << ", the numbers of parts, place " << i);
      CHECK(distance(got[i], want) < rounding<T>);
    }
  }
}

TEMPLATE_TEST_CASE("a row that sees nothing gets zeros from attention", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(6);
  for (const std::size_t rows : {2, 20}) {
    Attending<T> attending({2, 1, 24, 4, {9}, {rows}, Sight::causal}, random);
    attending.visible[1] = 0;
    const std::vector<float> want = attending.want();
    CHECK(std::all_of(want.begin() + 48, want.begin() + 96, [](float v) { return v == 0; }));
    for (const std::vector<float>& got : attending.got({1, 5}))
      CHECK(distance(got, want) < rounding<T>);
  }
}

TEST_CASE("attention is cut into parts while a GPU has too little to do, by counts only") {
  const kernels::HeadShape qwen{12, 2, 128}, smol{9, 3, 64}, pi0{8, 1, 256};
  CHECK(attention_splits<Bf16>(qwen, 1, 1, 1) == 64);
  CHECK(attention_splits<Bf16>(smol, 1, 1, 1) == 64);
  CHECK(attention_splits<Bf16>(smol, 4, 4, 1) == 21);
  CHECK(attention_splits<Bf16>(qwen, 8, 8, 1) == 16);
  CHECK(attention_splits<Bf16>(qwen, 200, 200, 1) == 1);
  CHECK(attention_splits<Bf16>(pi0, 51, 1, 51) == 18);
  CHECK(attention_splits<Bf16>(qwen, 512, 1, 512) == 1);
  CHECK(attention_splits<Bf16>(qwen, 0, 0, 0) == 1);
  // One long run among short ones: the grid is for the longest, its blocks are for the rows.
  CHECK(attention_splits<Bf16>(pi0, 58, 8, 51) == 8);
  CHECK(attention_scratch(qwen, 1, 1) == 0);
  CHECK(attention_scratch(qwen, 2, 3) == 2 * 12 * 3 * (128 + 2));
  CHECK(
      attention_splits<float>({8, 1, 256}, 51, 1, 51) <
      attention_splits<Bf16>({8, 1, 256}, 51, 1, 51));  // no tensor cores: blocks of eight queries
}

TEMPLATE_TEST_CASE("rotation into pages, and pages to rows and back", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(5);
  const std::size_t dims = GENERATE(as<std::size_t>{}, 12, 72, 128);
  const std::size_t half = dims / 2, kv_row = 2 * dims, page = 3 * kv_row;
  const kernels::HeadShape shape{4, 2, dims};
  Paged<T> paged{2, dims, 3, 2, 1, {7, 2}, 0, 0, {}, {}};
  paged.fill(random);
  const std::vector<std::uint32_t> sequence{0, 0, 1}, place{5, 6, 1}, visible{6, 7, 2};
  const auto qkv = typed<T>(random_floats(3 * shape.row(), random));
  const auto cosine = random_floats(3 * half, random);
  const auto sine = random_floats(3 * half, random);
  std::vector<float> q(3 * 4 * dims), keys(3 * kv_row), values(3 * kv_row);
  std::vector<float*> k, v;
  for (std::size_t i = 0; i < 3; ++i) {
    k.push_back(&keys[i * kv_row]);
    v.push_back(&values[i * kv_row]);
  }
  const auto bias = random_floats(shape.row(), random);
  auto biased = floats(qkv);
  for (std::size_t i = 0; i < biased.size(); ++i) biased[i] += bias[i % bias.size()];
  kernels::split_rotate_ref(shape, biased, cosine, sine, q, k, v);

  const OnDevice<float> dbias(bias);
  const OnDevice<T> dqkv(qkv), dq(q.size()), store(typed<T>(paged.store));
  const OnDevice<float> dc(cosine), dsine(sine);
  const OnDevice<std::uint32_t> ds(sequence), dp(place), dv(visible), dt(paged.table);
  const Pages<T> pages{store, paged.layers, paged.row(), paged.page_tokens};
  rotate_and_store<T>(shape, dqkv, dbias, 3, dc, dsine, dq, pages, paged.layer,
                      {ds, dp, dv, dt, paged.pages_max}, nullptr);
  CHECK(distance(floats(dq.read()), q) < rounding<T>);
  for (const bool is_value : {false, true}) {
    const OnDevice<T> rows(7 * kv_row);
    pages_to_rows<T>(pages, paged.layer, is_value, dt, 7, rows, nullptr);
    const auto got = floats(rows.read());
    const auto& want = is_value ? values : keys;
    CHECK(distance(std::span(got).subspan(5 * kv_row), std::span(want).first(2 * kv_row)) <
          rounding<T>);
    for (std::size_t i = 0; i < 5 * kv_row; ++i)  // what was there before is as it was
      REQUIRE(got[i] == paged.part(0, i / page, is_value)[i % page]);
    auto other = typed<T>(random_floats(7 * kv_row, random));
    const OnDevice<T> back(other);
    rows_to_pages<T>(back, pages, paged.layer, is_value, dt, 7, nullptr);
    pages_to_rows<T>(pages, paged.layer, is_value, dt, 7, rows, nullptr);
    CHECK(floats(rows.read()) == floats(other));
    shift_rows<T>(rows, 7, kv_row, 3, nullptr);
    auto shifted = floats(other);
    std::copy(shifted.begin() + 3 * kv_row, shifted.end(), shifted.begin());
    CHECK(floats(rows.read()) == shifted);
  }
}

TEMPLATE_TEST_CASE("queries alone, and what is not rotated", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(50);
  const kernels::HeadShape shape{3, 0, 32};
  Paged<T> paged{1, 8, 4, 1, 0, {2}, 0, 0, {}, {}};
  paged.fill(random);
  const auto rows = typed<T>(random_floats(2 * 96, random));
  const OnDevice<T> in(rows), out(rows.size()), store(typed<T>(paged.store));
  const OnDevice<std::uint32_t> sequence(2), table(paged.table);
  const OnDevice<std::uint32_t> place(std::vector<std::uint32_t>{0, 1});
  const Pages<T> pages{store, paged.layers, paged.row(), paged.page_tokens};
  rotate_and_store<T>(shape, in, nullptr, 2, nullptr, nullptr, out, pages, 0,
                      {sequence, place, place, table, paged.pages_max}, nullptr);
  CHECK(floats(out.read()) == floats(rows));
  CHECK(floats(store.read()) == paged.store);
}

TEST_CASE("a picture is cut and normalised") {
  if (!there()) return;
  SplitMix64 random(6);
  std::vector<std::uint8_t> picture(6 * 6 * 3);
  for (auto& v : picture) v = static_cast<std::uint8_t>(random.next());
  const std::vector<float> mean{0.5F, 0.4F, 0.3F}, deviation{0.5F, 0.2F, 0.1F};
  const OnDevice<std::uint8_t> dp(picture);
  const OnDevice<float> dm(mean), dd(deviation), out(std::size_t{6 * 6 * 3});
  cut_normalised<float>(dp, 6, 3, dm, dd, out, nullptr);
  const auto got = out.read();
  for (std::size_t patch = 0; patch < 4; ++patch)
    for (std::size_t i = 0; i < 27; ++i) {
      const std::size_t c = i / 9, y = patch / 2 * 3 + i % 9 / 3, x = patch % 2 * 3 + i % 3;
      const float share = static_cast<float>(picture[(y * 6 + x) * 3 + c]) / 255;
      CHECK(got[patch * 27 + i] == Approx((share - mean[c]) / deviation[c]).margin(1e-5));
    }
}
