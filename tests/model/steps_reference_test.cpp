// What each step of a drawing or of a robot's actions computes, beside the formulas of the papers
// written plainly here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <tuple>

#include "base/random.h"
#include "engine/tasks/control_cycle.h"
#include "engine/tasks/ddim_steps.h"
#include "engine/tasks/flow_steps.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string source = SLUICE_SOURCE_DIR;

std::vector<float> drawn(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

double difference(std::span<const float> got, std::span<const double> want) {
  REQUIRE(got.size() == want.size());
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    most = std::max(most, std::abs(double{got[i]} - want[i]) / (1 + std::abs(want[i])));
  return most;
}

/// The part of a table's rows that stands for one condition.
std::vector<float> of_condition(const Conditions& table, std::uint32_t at, std::size_t width) {
  std::vector<float> all;
  for (const std::vector<float>& layer : table.layers)
    all.insert(all.end(), layer.begin() + at * 6 * width, layer.begin() + (at + 1) * 6 * width);
  all.insert(all.end(), table.last.begin() + at * 3 * width,
             table.last.begin() + (at + 1) * 3 * width);
  return all;
}

double difference(const std::vector<float>& got, const std::vector<float>& want) {
  return difference(got, std::vector<double>(want.begin(), want.end()));
}

}  // namespace

TEST_CASE("each step of a DDIM drawing is the formula's, with the conditions of its time") {
  const Model model = Model::open(source + "/tests/golden/dit").value();
  const DiffusionTransformer& dit = model.diffusion();
  const DiffusionShape& shape = dit.shape();
  const std::size_t width = shape.trunk.block.width, rows = shape.patches() * width;
  const std::vector<double> shares = signal_shares(shape.train_steps);
  for (const auto& [steps, guidance] : std::vector<std::pair<std::size_t, float>>{
           {1, 4}, {2, 1}, {7, 2.5F}, {9, 0}, {17, 4}, {300, 3}, {shape.train_steps, 4}}) {
    INFO(steps << " steps, guidance " << guidance);
    std::vector<float> latents = drawn(shape.latent(), steps);
    auto made = DdimSteps::make(dit, 5, {steps, guidance}, latents);
    REQUIRE(made.ok());
    DdimSteps& drawing = **made;
    CHECK(drawing.rows() == shape.patches());
    CHECK(drawing.is_guided() == (guidance != 1));
    const std::size_t stride = shape.train_steps / steps;
    for (std::size_t left = steps; left > 0 && left + 20 > steps; --left) {
      REQUIRE(drawing.left() == left);
      DrawingRows step;
      drawing.lay_out(step);
      std::vector<float> want_rows;
      dit.rows_of(latents, want_rows);
      CHECK(difference(step.rows, want_rows) < 1e-5);
      const std::size_t time = (left - 1) * stride;
      const std::vector<float> times(2, static_cast<float>(time));
      const std::vector<std::int32_t> classes{5, static_cast<std::int32_t>(shape.classes)};
      const Conditions want = dit.conditions(times, classes);
      CHECK(difference(of_condition(*step.conditions, step.condition, width),
                       of_condition(want, 0, width)) < 1e-5);
      if (guidance != 1)
        CHECK(difference(of_condition(*step.conditions, step.unguided, width),
                         of_condition(want, 1, width)) < 1e-5);
      const std::vector<float> with = drawn(rows, left), without = drawn(rows, left + 1000);
      const std::vector<float> noise = dit.predicted(with), plain = dit.predicted(without);
      drawing.take(with,
                   guidance != 1 ? std::span<const float>(without) : std::span<const float>());
      std::vector<double> next(latents.size());
      const double now = shares[time];
      const double then = time < stride ? 1.0 : shares[time - stride];
      for (std::size_t i = 0; i < next.size(); ++i) {
        const double epsilon =
            guidance == 1
                ? double{noise[i]}
                : double{plain[i]} + double{guidance} * (double{noise[i]} - double{plain[i]});
        const double clean = (double{latents[i]} - std::sqrt(1 - now) * epsilon) / std::sqrt(now);
        next[i] = std::sqrt(then) * clean + std::sqrt(1 - then) * epsilon;
      }
      if (left > 1) {  // what the next step lays out shows what this one made
        latents.assign(next.begin(), next.end());
        continue;
      }
      CHECK(difference(drawing.take_latents(), next) < 1e-4);
    }
  }
}

TEST_CASE("shares of the picture fall as those of DDPM, for few steps of training too") {
  for (const std::size_t steps : {1U, 2U, 3U, 1000U}) {
    const std::vector<double> shares = signal_shares(steps);
    REQUIRE(shares.size() == steps);
    double left = 1;
    for (std::size_t i = 0; i < steps; ++i) {
      const double part =
          steps == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(steps - 1);
      left *= 1 - (0.0001 + part * 0.0199);
      CHECK(std::abs(shares[i] - left) < 1e-12);
    }
  }
}

TEST_CASE("each step of a flow goes by its velocity, guided or not, from where it begins") {
  const Model model = Model::open(source + "/models/scenes").value();
  const LatentFlow& flow = model.flow();
  const LatentFlowShape& shape = flow.shape();
  for (const auto& [steps, guidance, start] : std::vector<std::tuple<std::size_t, double, double>>{
           {1, 1, 1}, {2, 3, 1}, {5, 0, 0.5}, {4, 1, 0.25}, {3, 2.5, 0.001}, {1, 2, 0}}) {
    INFO(steps << " steps, guidance " << guidance << ", from " << start);
    std::vector<float> x = drawn(shape.tokens * shape.token_values, steps);
    FlowSteps drawing(flow, x, {steps, guidance, start, 0});
    CHECK(drawing.rows() == shape.tokens);
    CHECK(drawing.is_guided() == (guidance != 1));
    for (std::size_t step = 0; step < steps; ++step) {
      REQUIRE(drawing.left() == steps - step);
      const double t = start - start * static_cast<double>(step) / static_cast<double>(steps);
      DrawingRows laid;
      drawing.lay_out(laid);
      CHECK(difference(laid.rows, flow.rows(x, t)) < 1e-5);
      const std::vector<float> with = drawn(shape.tokens * shape.width, step + 7);
      const std::vector<float> without = drawn(shape.tokens * shape.width, step + 70);
      const auto v = flow.velocity_of(with, x, t), plain = flow.velocity_of(without, x, t);
      drawing.take(with,
                   guidance != 1 ? std::span<const float>(without) : std::span<const float>());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double way = guidance == 1
                               ? double{v[i]}
                               : double{plain[i]} + guidance * (double{v[i]} - double{plain[i]});
        x[i] = static_cast<float>(double{x[i]} - start / static_cast<double>(steps) * way);
      }
    }
    CHECK(difference(drawing.take_latents(), x) < 1e-4);
  }
}

TEST_CASE("a flow that foretells the picture divides by the time, but by no less than 0.001") {
  const Model model = Model::open(source + "/models/scenes").value();
  const LatentFlow& flow = model.flow();
  REQUIRE(flow.shape().predicts_x0);
  const std::vector<float> hidden = drawn(flow.shape().tokens * flow.shape().width, 3);
  const std::vector<float> x = drawn(flow.shape().tokens * flow.shape().token_values, 4);
  const auto at_one = flow.velocity_of(hidden, x, 1);
  // At the end of time it is the latents less the picture, which is a product with the rows.
  const Tensor weight = model.file().load("denoiser.out_proj.weight").value();
  const Tensor bias = model.file().load("denoiser.out_proj.bias").value();
  const auto value = [](const Tensor& tensor, std::size_t i) {
    return double{tensor.dtype() == Dtype::f32 ? tensor.f32()[i] : f32_from_bf16(tensor.bf16()[i])};
  };
  const std::size_t values = flow.shape().token_values, width = flow.shape().width;
  std::vector<double> less;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double foretold = value(bias, i % values);
    for (std::size_t k = 0; k < width; ++k)
      foretold += value(weight, i % values * width + k) * double{hidden[i / values * width + k]};
    less.push_back(double{x[i]} - foretold);
  }
  CHECK(difference(at_one, less) < 0.02);  // products may round their inputs to 16 bits
  for (const double t : {0.5, 0.01, 0.002, 0.001, 0.0005, 0.0}) {
    std::vector<double> want;
    for (const float v : at_one) want.push_back(double{v} / std::max(t, 0.001));
    CHECK(difference(flow.velocity_of(hidden, x, t), want) < 1e-4);
  }
}

TEST_CASE("times of a schedule go from its start by equal parts, and their waves are openpi's") {
  for (const std::size_t steps : {1U, 2U, 3U, 7U, 10U, 50U})
    for (const float start : {1.0F, 0.5F, 0.3F}) {
      const FlowSchedule schedule{steps, start};
      const std::vector<float> times = schedule.times();
      REQUIRE(times.size() == steps);
      for (std::size_t i = 0; i < steps; ++i)
        CHECK(std::abs(times[i] - start * (1 - static_cast<float>(i) / static_cast<float>(steps))) <
              1e-5F);
    }
  for (const std::size_t width : {4U, 6U, 64U})
    for (const double t : {0.0, 0.1, 0.7, 1.0}) {
      const std::vector<float> waves = ActionHead::time_embedding(t, width);
      std::vector<double> want(width);
      const std::size_t half = width / 2;
      for (std::size_t i = 0; i < half; ++i) {
        const double period =
            0.004 * std::pow(1000.0, static_cast<double>(i) / static_cast<double>(half - 1));
        want[i] = std::sin(t * 2 * std::numbers::pi / period);
        want[half + i] = std::cos(t * 2 * std::numbers::pi / period);
      }
      CHECK(difference(waves, want) < 1e-6);
    }
}

TEST_CASE("how far each row of a prefix and of a suffix sees follows from the family alone") {
  for (const char* family : {"pi0", "pi05", "smolvla"}) {
    INFO(family);
    const Model model = Model::open(source + "/tests/golden/" + family).value();
    const FlowPolicy policy = FlowPolicy::load(model).value();
    const bool smol = policy.head().family == Family::smolvla;
    const bool states = policy.head().family == Family::pi0;
    for (const bool causal : {false, true}) {
      ActionHead head = policy.head();
      head.shape.causal_language = causal;
      for (std::uint32_t count = 0; count < 9; ++count)
        for (std::uint32_t pictures = 0; pictures <= count; ++pictures) {
          const auto sees = head.prefix_sees(count, pictures);
          REQUIRE(sees.size() == count);
          for (std::uint32_t i = 0; i < count; ++i) {
            std::uint32_t want = smol && i + 1 != count ? count - 1 : count;
            if (causal) want = i < pictures ? pictures : i + 1;
            CHECK(sees[i] == want);
          }
        }
    }
    for (const std::uint32_t before : {0U, 1U, 17U}) {
      const auto sees = policy.head().suffix_sees(before);
      REQUIRE(sees.size() == policy.shape().horizon + (states ? 1 : 0));
      for (std::uint32_t i = 0; i < sees.size(); ++i) {
        std::uint32_t want = before + static_cast<std::uint32_t>(sees.size());
        if (smol || (states && i == 0)) want = before + i + 1;
        CHECK(sees[i] == want);
      }
    }
  }
}

TEST_CASE("the tables of the eight schedules used last are kept, each by steps and start") {
  const Model model = Model::open(source + "/tests/golden/pi05").value();
  const FlowPolicy policy = FlowPolicy::load(model).value();
  const auto table = [&](std::size_t steps, float start) {
    return policy.head().conditions({steps, start}).value();
  };
  const auto first = table(1, 1);
  std::vector<std::shared_ptr<const Conditions>> others;
  for (std::size_t steps = 2; steps < 9; ++steps)
    others.push_back(table(steps, steps % 2 == 0 ? 1.0F : 0.5F));
  CHECK(table(1, 1) == first);
  CHECK(table(8, 1) == others.back());
  const auto ninth = table(8, 0.5F);
  CHECK(ninth != others.back());
  CHECK(table(2, 1) == others.front());
  CHECK(table(8, 1) == others.back());
  const auto again = table(1, 1);
  CHECK(again != first);  // it was the oldest
  CHECK(again->last == first->last);
  CHECK(table(8, 0.5F) == ninth);
  // A row for each step, of that step's time alone.
  const std::size_t width = policy.shape().expert.block.width;
  const auto two = table(2, 1), half = table(1, 0.5F);
  REQUIRE(two->layers.size() == policy.shape().expert.layers);
  CHECK(difference(of_condition(*two, 0, width), of_condition(*first, 0, width)) < 1e-5);
  CHECK(difference(of_condition(*two, 1, width), of_condition(*half, 0, width)) < 1e-5);
  CHECK(difference(of_condition(*two, 1, width), of_condition(*first, 0, width)) > 1e-3);
}

TEST_CASE("a cycle wants pages for its prefix, and for its steps' rows where it has steps") {
  for (const char* family : {"pi0", "pi05", "smolvla"})
    for (const std::size_t page_tokens : {1U, 3U, 16U})
      for (const std::size_t steps : {0U, 1U, 5U}) {
        INFO(family << ", pages of " << page_tokens << ", " << steps << " steps");
        const Model model = Model::open(source + "/tests/golden/" + family).value();
        const FlowPolicy policy = FlowPolicy::load(model).value();
        KvPool pool(policy.kv_shape(page_tokens), 200);
        CpuText text(model.text(), pool);
        const std::size_t width = model.text().width();
        for (const std::size_t prefix : {1U, 7U, 16U, 21U}) {
          ControlOptions options;
          options.schedule.steps = steps;
          const std::vector<float> state = drawn(policy.shape().state_dims, 1);
          auto made = ControlCycle::make(policy, {}, drawn(prefix * width, 2), 0,
                                         drawn(policy.shape().horizon * policy.shape().dims, 3),
                                         state, options);
          REQUIRE(made.ok());
          ControlCycle& cycle = **made;
          const std::size_t rows = prefix + (steps == 0 ? 0 : policy.head().suffix_rows());
          const PagesWanted wanted = cycle.pages_wanted(text);
          CHECK(wanted.least == (rows + page_tokens - 1) / page_tokens);
          CHECK(wanted.most == wanted.least);
          CHECK(wanted.gives_back);
          CHECK(cycle.pages_taken() == 0);
          const Need need = cycle.need(text);
          CHECK((need.kind == Need::Kind::prompt && need.rows == prefix && !need.divisible));
          Work work;
          cycle.lay_out(text, prefix, work);
          CHECK((work.expert == nullptr && !work.is_scratch && !work.wants_logits));
          REQUIRE(work.chunks.size() == 1);
          CHECK(work.chunks[0].embeddings.size() == prefix * width);
          std::vector<float> hidden;
          REQUIRE(text.forward(work.chunks, hidden).ok());
          cycle.take(text, {hidden, {}, -1});
          CHECK(cycle.done() == (steps == 0));
          CHECK(cycle.pages_taken() == (prefix + page_tokens - 1) / page_tokens);
          if (steps == 0) continue;
          CHECK(cycle.need(text).rows == policy.head().suffix_rows());
          CHECK(cycle.need(text).kind == Need::Kind::step);
          Work step;
          cycle.lay_out(text, 0, step);
          CHECK((step.expert == &policy.expert() && step.is_scratch));
        }
      }
}
