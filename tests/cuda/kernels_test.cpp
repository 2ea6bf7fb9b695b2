// Each kernel of the GPU against the CPU's reference; odd sizes, f32 and bf16.
#include <numeric>

#include "kernels/attention.h"
#include "on_device.h"

using namespace sluice;
using namespace sluice::device;

TEMPLATE_TEST_CASE("norms, with and without weights and modulation", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(1);
  for (const std::size_t width : {1, 31, 64, 300, 1025}) {
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
    norm_rows<T>(dx, rows, width, true, dw, nullptr, 1e-5F, {}, dy, nullptr);
    kernels::rms_norm_ref(x, width, weight, 1e-5F, want);
    CHECK(distance(floats(dy.read()), want) < rounding<T>);
    norm_rows<T>(dx, rows, width, false, dw, db, 1e-5F, {}, dy, nullptr);
    kernels::layer_norm_ref(x, width, weight, bias, 1e-5F, want);
    CHECK(distance(floats(dy.read()), want) < rounding<T>);
    norm_rows<T>(dx, rows, width, false, nullptr, nullptr, 1e-5F, {dm, dc, 3 * width}, dy, nullptr);
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
  const std::size_t rows = 5, width = 77;
  for (const auto kind :
       {kernels::Activation::silu, kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf}) {
    const auto x = typed<T>(random_floats(rows * 2 * width, random, 3));
    const OnDevice<T> dx(x), dy(rows * width);
    std::vector<float> want(rows * width);
    gated<T>(kind, dx, rows, width, dy, nullptr);
    kernels::gated_ref(kind, floats(x), width, want);
    CHECK(distance(floats(dy.read()), want) < rounding<T>);
    activate<T>(kind, dx, x.size(), nullptr);
    std::vector<float> all = floats(x);
    kernels::activate_ref(kind, all);
    CHECK(distance(floats(dx.read()), all) < rounding<T>);
  }
  const auto hidden = random_floats(rows * width, random);
  const auto branch = typed<T>(random_floats(rows * width, random));
  const auto scale = random_floats(width, random);
  const auto gates = random_floats(3 * width, random);
  const OnDevice<float> dh(hidden), ds(scale), dg(gates);
  const OnDevice<T> db(branch);
  const OnDevice<std::uint32_t> none(rows);
  add_rows<T>(dh, db, rows, width, ds, {dg, none, 3 * width}, nullptr);
  std::vector<float> want = hidden;
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] += floats(branch)[i] * scale[i % width] * gates[2 * width + i % width];
  CHECK(distance(dh.read(), want) < 3e-6);
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
  for (const auto& [rows, out, in] :
       {std::array<std::size_t, 3>{1, 5, 8}, {4, 67, 256}, {3, 1, 1}, {2, 9, 301}, {4, 33, 1032}}) {
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

struct AttentionCase {
  std::size_t heads, kv_heads, head_dim, page_tokens;
  std::vector<std::size_t> before, rows;  // of each sequence
  bool causal;
};

}  // namespace

TEMPLATE_TEST_CASE("paged attention of mixed rows, in one part and in several", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(4);
  for (const AttentionCase& c :
       {AttentionCase{4, 2, 16, 4, {0, 9, 40}, {5, 1, 3}, true},
        AttentionCase{8, 1, 64, 16, {7, 0}, {1, 20}, false},
        AttentionCase{3, 3, 10, 3, {0, 70}, {1, 2}, true},
        AttentionCase{2, 2, 256, 16, {130}, {1}, true},
        AttentionCase{2, 1, 8, 16, {600}, {2}, true},  // a warp comes back with a new largest score
        AttentionCase{14, 2, 72, 16, {33, 3}, {1, 1}, true},
        // Many rows: on tensor cores in bf16, with heads that are no whole tiles, and whole ones.
        AttentionCase{4, 4, 72, 16, {0, 5}, {70, 33}, false},
        AttentionCase{4, 2, 128, 16, {40}, {37}, true},
        AttentionCase{4, 1, 256, 16, {3, 0}, {19, 1}, true},
        AttentionCase{2, 2, 10, 3, {4, 0}, {21, 40}, true},
        AttentionCase{6, 2, 80, 4, {0, 64}, {65, 32}, false}}) {
    Paged<T> paged{c.kv_heads, c.head_dim, c.page_tokens, 2, 1, {}, 0, 0, {}, {}};
    std::vector<std::uint32_t> sequence, place, visible;
    std::vector<RowRun> runs;
    std::size_t most = 0;
    for (std::size_t s = 0; s < c.rows.size(); ++s) {
      paged.lengths.push_back(c.before[s] + c.rows[s]);
      runs.push_back(
          {static_cast<std::uint32_t>(place.size()), static_cast<std::uint32_t>(c.rows[s])});
      most = std::max(most, c.rows[s]);
      for (std::size_t i = 0; i < c.rows[s]; ++i) {
        sequence.push_back(static_cast<std::uint32_t>(s));
        place.push_back(static_cast<std::uint32_t>(c.before[s] + i));
        visible.push_back(
            static_cast<std::uint32_t>(c.causal ? c.before[s] + i + 1 : c.before[s] + c.rows[s]));
      }
    }
    paged.fill(random);
    const kernels::HeadShape shape{c.heads, c.kv_heads, c.head_dim};
    const auto q = typed<T>(random_floats(place.size() * c.heads * c.head_dim, random));
    std::vector<std::vector<const float*>> keys(c.rows.size()), values(c.rows.size());
    std::vector<kernels::PagedSequence> sequences;
    for (std::size_t s = 0; s < c.rows.size(); ++s) {
      for (std::size_t p = 0; p < paged.pages_max; ++p) {
        keys[s].push_back(paged.part(s, p, false));
        values[s].push_back(paged.part(s, p, true));
      }
      sequences.push_back({keys[s], values[s]});
    }
    std::vector<float> want(q.size());
    kernels::attention_ref({c.heads, c.kv_heads, c.head_dim, c.page_tokens}, floats(q), sequence,
                           visible, sequences, want);

    const OnDevice<T> dq(q), store(typed<T>(paged.store)), out(q.size());
    const OnDevice<std::uint32_t> ds(sequence), dp(place), dv(visible), dt(paged.table);
    const OnDevice<RowRun> dr(runs);
    const Pages<T> pages{store, paged.layers, paged.row(), paged.page_tokens};
    const Places places{ds, dp, dv, dt, paged.pages_max};
    for (const std::size_t splits : {1, 3, 16}) {
      INFO(c.heads << " heads of " << c.head_dim << ", " << splits << " parts");
      const OnDevice<float> scratch(attention_scratch(shape, place.size(), splits));
      attention<T>(shape, dq, place.size(), dr, runs.size(), most, pages, paged.layer, places,
                   splits, scratch, out, nullptr);
      CHECK(distance(floats(out.read()), want) < rounding<T>);
    }
  }
}

TEMPLATE_TEST_CASE("rotation into pages, and pages to rows and back", "", float, Bf16) {
  if (!there()) return;
  using T = TestType;
  SplitMix64 random(5);
  const kernels::HeadShape shape{4, 2, 12};
  Paged<T> paged{2, 12, 3, 2, 1, {7, 2}, 0, 0, {}, {}};
  paged.fill(random);
  const std::vector<std::uint32_t> sequence{0, 0, 1}, place{5, 6, 1}, visible{6, 7, 2};
  const auto qkv = typed<T>(random_floats(3 * shape.row(), random));
  const auto cosine = random_floats(3 * 6, random);
  const auto sine = random_floats(3 * 6, random);
  std::vector<float> q(3 * 48), keys(3 * 24), values(3 * 24);
  std::vector<float*> k, v;
  for (std::size_t i = 0; i < 3; ++i) {
    k.push_back(&keys[i * 24]);
    v.push_back(&values[i * 24]);
  }
  kernels::split_rotate_ref(shape, floats(qkv), cosine, sine, q, k, v);

  const OnDevice<T> dqkv(qkv), dq(q.size()), store(typed<T>(paged.store));
  const OnDevice<float> dc(cosine), dsine(sine);
  const OnDevice<std::uint32_t> ds(sequence), dp(place), dv(visible), dt(paged.table);
  const Pages<T> pages{store, paged.layers, paged.row(), paged.page_tokens};
  rotate_and_store<T>(shape, dqkv, 3, dc, dsine, dq, pages, paged.layer,
                      {ds, dp, dv, dt, paged.pages_max}, nullptr);
  CHECK(distance(floats(dq.read()), q) < rounding<T>);
  for (const bool is_value : {false, true}) {
    const OnDevice<T> rows(std::size_t{7 * 24});
    pages_to_rows<T>(pages, paged.layer, is_value, dt, 7, rows, nullptr);
    const auto got = floats(rows.read());
    const auto& want = is_value ? values : keys;
    CHECK(distance(std::span(got).subspan(5 * 24), std::span(want).first(2 * 24)) < rounding<T>);
    for (std::size_t i = 0; i < 5 * 24; ++i)  // what was there before is as it was
      REQUIRE(got[i] == paged.part(0, i / 72, is_value)[i % 72]);
    auto other = typed<T>(random_floats(7 * 24, random));
    const OnDevice<T> back(other);
    rows_to_pages<T>(back, pages, paged.layer, is_value, dt, 7, nullptr);
    pages_to_rows<T>(pages, paged.layer, is_value, dt, 7, rows, nullptr);
    CHECK(floats(rows.read()) == floats(other));
    shift_rows<T>(rows, 7, 24, 3, nullptr);
    auto shifted = floats(other);
    std::copy(shifted.begin() + 3 * 24, shifted.end(), shifted.begin());
    CHECK(floats(rows.read()) == shifted);
  }
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

TEST_CASE("tokens are chosen as the CPU chooses them") {
  if (!there()) return;
  SplitMix64 random(7);
  const std::size_t vocabulary = 311;
  std::vector<kernels::SampleOptions> options(6);
  options[1].temperature = 1;
  options[2] = {0.7F, 5, 1, 0, 1, {}};
  options[3] = {1.3F, 0, 0.6F, 0, 1, {}};
  options[4] = {0.9F, 0, 1, 0.2F, 1.4F, {}};
  options[5] = {1.1F, 40, 0.8F, 0.05F, 1.2F, {}};
  const std::vector<std::int32_t> history{3, 77, 299, 300};
  const OnDevice<std::int32_t> dh(history);
  int different = 0;
  for (int round = 0; round < 6; ++round) {
    const auto logits = random_floats(options.size() * vocabulary, random, 2.5);
    std::vector<SampleRow> rows;
    std::vector<std::int32_t> want;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const auto& o = options[i];
      const float uniform = static_cast<float>(random.next() >> 40U) * 0x1p-24F;
      rows.push_back({o.temperature, o.top_p, o.min_p, o.repetition_penalty,
                      static_cast<std::uint32_t>(o.top_k), 0, 4, uniform});
      want.push_back(kernels::sample(std::span(logits).subspan(i * vocabulary, vocabulary), history,
                                     o, double{uniform}));
    }
    const OnDevice<float> dl(logits);
    const OnDevice<SampleRow> dr(rows);
    const OnDevice<std::int32_t> out(options.size());
    sample(dl, options.size(), vocabulary, dr, dh, out, nullptr);
    const auto got = out.read();
    for (std::size_t i = 0; i < want.size(); ++i) {
      INFO("row " << i << " of round " << round);
      CHECK(got[i] == want[i]);
    }
    different += want[1] != want[0] ? 1 : 0;
  }
  CHECK(different > 1);  // it was a draw
}

TEST_CASE("equal logits are drawn evenly, and the lowest is the likeliest") {
  if (!there()) return;
  const std::vector<float> logits{1, 2, 2, 2, 0};
  const std::vector<SampleRow> greedy{{}};
  for (int i = 0; i < 3; ++i) {
    const OnDevice<float> dl(logits);
    SampleRow row;
    row.temperature = 0.1F;
    row.uniform = (static_cast<float>(i) + 0.5F) / 3;
    const OnDevice<SampleRow> dr(std::vector<SampleRow>{row});
    const OnDevice<std::int32_t> history(1), out(1);
    sample(dl, 1, 5, dr, history, out, nullptr);
    CHECK(out.read()[0] == 1 + i);
  }
  const OnDevice<float> dl(logits);
  const OnDevice<SampleRow> dr(greedy);
  const OnDevice<std::int32_t> history(1), out(1);
  sample(dl, 1, 5, dr, history, out, nullptr);
  CHECK(out.read()[0] == 1);
}
