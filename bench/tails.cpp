// How long an answer's tokens take while a long prompt arrives beside them.
//
// Usage: bench_tails MODEL [PROMPT]
// MODEL: a language model, PROMPT: tokens of the prompt that arrives (1024). Four answers run;
// every 24th token a prompt comes, and its answer of one token. By turns, each twice: nothing
// arrives; prompts in pieces (forwards of at most 64 and 256 rows); prompts in one piece.
// Unit: milliseconds from one token of an answer to its next; median, 99th percentile, largest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/usage.h"
#include "engine/family/model.h"
#include "engine/tasks/generator.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t answers = 4, tokens = 96, every = 24, page_tokens = 16, rounds = 2;

struct Way {
  const char* what;
  std::size_t budget = 0;  // rows of a forward
  bool arrives = true;
  std::vector<double> times = {};
};

Generation request(const Decoder& text, std::uint64_t id, std::size_t prompt, std::size_t answer) {
  Generation made;
  made.id = id;
  made.options.tokens_max = answer;
  made.options.share_prefix = false;
  for (std::size_t i = 0; i < prompt; ++i)
    made.history.push_back(
        static_cast<std::int32_t>((i * 7919 + id * 104729) % text.shape().vocabulary));
  text.embed(made.history, made.rows);
  return made;
}

void run(const Decoder& text, std::size_t prompt, Way& way) {
  const std::size_t room = answers * (tokens + 32) + tokens / every * (prompt + 32);
  KvPool pool(text.kv_shape(page_tokens), room / page_tokens + 64);
  Generator generator(text, pool, nullptr, Budget{way.budget, 64});
  for (std::uint64_t id = 0; id < answers; ++id) generator.add(request(text, id, 16, tokens));
  std::vector<std::uint64_t> advanced;
  std::vector<Clock::time_point> last(answers);
  std::uint64_t next = answers;
  while (generator.find(0)->finish == Generation::Finish::none) {
    const std::size_t made = generator.find(0)->tokens.size();
    const std::uint64_t due = answers + made / every;
    if (way.arrives && made % every == 0 && made != 0 && next < due)
      generator.add(request(text, next++, prompt, 1));
    advanced.clear();
    generator.step(advanced);
    const auto now = Clock::now();
    for (const std::uint64_t id : advanced) {
      if (id >= answers || generator.find(id)->tokens.empty()) continue;
      if (generator.find(id)->tokens.size() > 2)
        way.times.push_back(1e3 * std::chrono::duration<double>(now - last[id]).count());
      last[id] = now;
    }
  }
}

void print(Way& way, double beside) {
  std::ranges::sort(way.times);
  const auto at = [&](double share) {
    return way
        .times[std::min(static_cast<std::size_t>(share * static_cast<double>(way.times.size())),
                        way.times.size() - 1)];
  };
  std::printf("  %-34s median %7.2f   p99 %7.2f (%.1f of nothing's)   largest %7.2f\n", way.what,
              at(0.5), at(0.99), at(0.99) / beside, way.times.back());
}

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* usage = "usage: bench_tails MODEL [PROMPT]";
  if (const auto status = usage_status(argc, argv, usage)) return *status;
  if (argc < 2) {
    std::fprintf(stderr, "%s\n", usage);
    return 2;
  }
  const Result<Model> model = Model::open(argv[1]);
  if (!model.ok() || !model->architecture().text.has_value()) {
    std::fprintf(stderr, "error: %s\n",
                 model.ok() ? "the model has no decoder" : model.error().message.c_str());
    return 1;
  }
  const std::size_t prompt = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1024;
  if (prompt == 0 || prompt + 1 > model->text().shape().positions_max) {
    std::fprintf(stderr, "error: PROMPT is 1 to %zu\n", model->text().shape().positions_max - 1);
    return 2;
  }
  Way ways[] = {{"nothing arrives", 256, false},
                {"prompts in forwards of 64 rows", 64},
                {"prompts in forwards of 256 rows", 256},
                {"prompts in one piece", prompt + answers}};
  for (std::size_t round = 0; round < rounds; ++round)
    for (Way& way : ways) run(model->text(), prompt, way);
  std::printf("%zu answers of %zu tokens; a prompt of %zu tokens every %zu. Milliseconds a token\n",
              answers, tokens, prompt, every);
  std::ranges::sort(ways[0].times);
  const double beside = ways[0].times[ways[0].times.size() * 99 / 100];
  for (Way& way : ways) print(way, beside);
  return 0;
}
