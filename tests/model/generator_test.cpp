// Continuous batching: who else is there, when it is put away and how prompts are cut must not
// show.
#include "engine/tasks/generator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "engine/family/model.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

struct Loaded {
  Model model = std::move(Model::open(golden + "qwen2")).value();
  Tokenizer tokenizer =
      std::move(Tokenizer::load(golden + "tokenizers/smollm/tokenizer.json")).value();
  KvPool pool{model.text().kv_shape(4), 400};

  Generation request(std::uint64_t id, std::size_t prompt, GenerationOptions options) const {
    Generation made;
    made.id = id;
    made.options = std::move(options);
    SplitMix64 random(id);
    for (std::size_t i = 0; i < prompt; ++i)
      made.history.push_back(static_cast<std::int32_t>(random.next() % 128));
    model.text().embed(made.history, made.rows);
    return made;
  }
};

/// Five requests of all kinds, made anew from their numbers.
std::vector<Generation> requests(const Loaded& loaded) {
  std::vector<Generation> made;
  for (std::uint64_t id = 0; id < 5; ++id) {
    GenerationOptions options;
    options.tokens_max = 6 + 3 * id;
    options.seed = 100 + id;
    options.sampling.temperature = id == 0 ? 0.0F : 0.8F;
    options.sampling.top_k = id == 2 ? 9 : 0;
    options.sampling.top_p = id == 3 ? 0.7F : 1.0F;
    options.sampling.min_p = id == 4 ? 0.05F : 0.0F;
    options.sampling.repetition_penalty = id == 1 ? 1.5F : 1.0F;
    made.push_back(loaded.request(id, 3 + 17 * id % 40, options));
  }
  return made;
}

using Answers = std::map<std::uint64_t, std::vector<std::int32_t>>;

/// Runs until all are done; `between` may take out and put back.
Answers run(
    Generator& generator, const std::function<void()>& between = [] {}) {
  std::vector<std::uint64_t> advanced;
  for (int i = 0; i < 1000 && generator.busy(); ++i) {
    generator.step(advanced);
    between();
  }
  REQUIRE_FALSE(generator.busy());
  Answers answers;
  for (std::uint64_t id = 0; id < 16; ++id)
    if (const Generation* g = generator.find(id)) answers[id] = g->tokens;
  return answers;
}

void forget(Loaded& loaded, Generator& generator) {
  for (std::uint64_t id = 0; id < 16; ++id)
    if (auto g = generator.remove(id)) loaded.pool.truncate(g->sequence, 0);
  CHECK(loaded.pool.pages_free() == loaded.pool.pages());
}

Answers alone(Loaded& loaded) {
  Answers answers;
  for (Generation& request : requests(loaded)) {
    Generator generator(loaded.model.text(), loaded.pool, nullptr, {});
    generator.add(std::move(request));
    answers.merge(run(generator));
    forget(loaded, generator);
  }
  return answers;
}

}  // namespace

TEST_CASE("an answer is the same alone, in a batch, and under any budget") {
  Loaded loaded;
  const Answers want = alone(loaded);
  CHECK(want.at(1).size() == 9);
  CHECK(want.at(0) != want.at(1));
  for (const Budget budget : {Budget{256, 64}, Budget{7, 64}, Budget{1, 64}, Budget{64, 2}}) {
    Generator generator(loaded.model.text(), loaded.pool, nullptr, budget);
    for (Generation& request : requests(loaded)) generator.add(std::move(request));
    CHECK(run(generator, [&] { CHECK(generator.last_tokens() <= budget.tokens); }) == want);
    forget(loaded, generator);
  }
}

TEST_CASE("a generation that is put away at any step goes on as if it had not been") {
  Loaded loaded;
  const Answers want = alone(loaded);
  Generator generator(loaded.model.text(), loaded.pool, nullptr, {11, 64});
  Generator other(loaded.model.text(), loaded.pool, nullptr, {3, 64});
  for (Generation& request : requests(loaded)) generator.add(std::move(request));
  SplitMix64 random(9);
  std::vector<std::uint64_t> advanced;
  const Answers got = run(generator, [&] {
    std::optional<Generation> taken = generator.remove(random.next() % 5);
    if (!taken.has_value()) return;
    // Elsewhere for a while, then back at the end of the queue.
    const std::uint64_t id = taken->id;
    other.add(std::move(*taken));
    if (random.next() % 2 == 0) other.step(advanced);
    generator.add(std::move(*other.remove(id)));
  });
  CHECK(got == want);
  CHECK_FALSE(generator.remove(99).has_value());
}

TEST_CASE("an answer ends at an end token, at its length, or before a stop string") {
  Loaded loaded;
  const auto answer = [&](const GenerationOptions& options) {
    Generator generator(loaded.model.text(), loaded.pool, &loaded.tokenizer, {});
    generator.add(loaded.request(1, 5, options));
    run(generator);
    Generation made = std::move(*generator.remove(1));
    loaded.pool.truncate(made.sequence, 0);
    return made;
  };
  GenerationOptions options;
  options.tokens_max = 12;
  options.sampling.temperature = 1;
  options.seed = 3;
  const Generation whole = answer(options);
  CHECK(whole.finish == Generation::Finish::length);
  REQUIRE(whole.tokens.size() == 12);
  CHECK(whole.text == loaded.tokenizer.decode(whole.tokens));
  options.end_tokens = {whole.tokens[4]};
  const Generation ended = answer(options);
  CHECK(ended.finish == Generation::Finish::end_token);
  CHECK(ended.tokens.size() <= 4);
  options.end_tokens.clear();
  // A stop string that spans tokens: the middle of the text.
  const std::string stop = whole.text.substr(whole.text.size() / 2, 3);
  options.stop = {stop};
  const Generation stopped = answer(options);
  CHECK(stopped.finish == Generation::Finish::stop);
  CHECK(stopped.text == whole.text.substr(0, whole.text.find(stop)));
  options.stop.clear();
  options.sampling.bias = {{77, 1000.0F}};
  CHECK(answer(options).tokens == std::vector<std::int32_t>(12, 77));
}

TEST_CASE("streamed text never shrinks: what may become a stop string is kept back to the byte") {
  Loaded loaded;
  GenerationOptions options;
  options.tokens_max = 12;
  options.sampling.temperature = 1;
  options.seed = 3;
  // Every text that was shown, the last one whole.
  const auto shown = [&](const std::string& stop) {
    options.stop = {stop};
    Generator generator(loaded.model.text(), loaded.pool, &loaded.tokenizer, {});
    generator.add(loaded.request(1, 5, options));
    std::vector<std::string> texts;
    std::vector<std::uint64_t> advanced;
    while (generator.busy()) {
      generator.step(advanced);
      texts.push_back(generator.find(1)->text);
    }
    Generation made = std::move(*generator.remove(1));
    loaded.pool.truncate(made.sequence, 0);
    return std::pair(std::move(texts), std::move(made));
  };
  const auto [plain, whole] = shown("");
  int spanning = 0;
  for (std::size_t n = 1; n < whole.tokens.size(); ++n) {
    const std::vector<std::int32_t> head(whole.tokens.begin(),
                                         whole.tokens.begin() + static_cast<std::ptrdiff_t>(n));
    const std::size_t edge = loaded.tokenizer.decode(head).size();
    if (edge == 0 || edge >= whole.text.size()) continue;
    // The last byte of a token with the first of the next: kept back after the one, and after
    // another second byte given out.
    for (const std::string& stop :
         {whole.text.substr(edge - 1, 2), whole.text.substr(edge - 1, 1) + '\1'}) {
      const auto [texts, made] = shown(stop);
      for (std::size_t i = 1; i < texts.size(); ++i)
        CHECK(texts[i].compare(0, texts[i - 1].size(), texts[i - 1]) == 0);
      const std::size_t at = whole.text.find(stop);
      CHECK(made.text == whole.text.substr(0, at));
      spanning += at == edge - 1 ? 1 : 0;
    }
  }
  CHECK(spanning > 2);
}

TEST_CASE("a stop string is found though one of its characters comes in several tokens") {
  Loaded loaded;
  CpuText engine(loaded.model.text(), loaded.pool);
  // What was shown after each token, and whether the answer ended by the stop string.
  const auto shown = [&](const std::string& text, const std::string& stop) {
    Generation asked;
    asked.options.tokens_max = 100;
    asked.options.stop = {stop};
    GenerationTask task(std::move(asked), &loaded.tokenizer);
    std::vector<std::string> texts;
    for (const std::int32_t token : loaded.tokenizer.encode(text)) {
      if (task.done()) break;
      task.take(engine, {{}, {}, token});
      texts.push_back(task.generation().text);
    }
    return std::pair(texts, task.generation().finish == Generation::Finish::stop);
  };
  REQUIRE(loaded.tokenizer.encode("\u755c").size() > 1);
  const std::string replaced = "\ufffd";
  for (const auto& [text, stop] : std::vector<std::pair<std::string, std::string>>{
           {"xc\u755c!", "c\u755c"},
           {"xc\u755c\u755c!", "c\u755c\u755c!"},
           {"xab\u755c", "ab\u755c"},
           {"x" + replaced + "c\u755c!", "c\u755c"},
           {"xc" + replaced + "d!", "c" + replaced + "d"},
           {"xc" + replaced + "\u755cd!", "c" + replaced + "\u755c"}}) {
    INFO(text);
    const auto [texts, stopped] = shown(text, stop);
    CHECK(stopped);
    CHECK(texts.back() == text.substr(0, text.find(stop)));
    for (std::size_t i = 1; i < texts.size(); ++i) CHECK(texts[i].starts_with(texts[i - 1]));
  }
  // What was kept back for nothing is shown when that is clear.
  const auto [texts, stopped] = shown("xc\u755c!", "c\u755d");
  CHECK_FALSE(stopped);
  CHECK(texts.back() == "xc\u755c!");
}

TEST_CASE("a prompt whose rows see each other goes whole, over the budget when it is alone") {
  Loaded loaded;
  GenerationOptions options;
  options.tokens_max = 5;
  const auto block = [&](std::uint64_t id, std::size_t tokens) {
    Generation made = loaded.request(id, tokens, options);
    made.mask = Mask::block;
    return made;
  };
  Answers want;
  for (const std::uint64_t id : {0, 1}) {
    Generator generator(loaded.model.text(), loaded.pool, nullptr, {});
    generator.add(id == 0 ? loaded.request(0, 6, options) : block(1, 20));
    want.merge(run(generator));
    forget(loaded, generator);
  }
  for (const bool block_first : {true, false}) {
    Generator generator(loaded.model.text(), loaded.pool, nullptr, {4, 64});
    if (block_first) generator.add(block(1, 20));
    generator.add(loaded.request(0, 6, options));
    if (!block_first) generator.add(block(1, 20));
    std::size_t most = 0;
    const Answers got = run(generator, [&] {
      most = std::max(most, generator.last_tokens());
      // Nobody else pays for a prompt that is over the budget.
      CHECK((generator.last_tokens() <= 4 || generator.last_tokens() == 20));
    });
    CHECK(most == 20);
    CHECK(got == want);
    forget(loaded, generator);
  }
}

TEST_CASE("what does not fit the pool fails alone and says so") {
  Loaded loaded;
  KvPool small(loaded.model.text().kv_shape(4), 6);
  Generator generator(loaded.model.text(), small, nullptr, {});
  GenerationOptions options;
  options.tokens_max = 4;
  generator.add(loaded.request(0, 8, options));
  generator.add(loaded.request(1, 40, options));
  const Answers answers = run(generator);
  CHECK(answers.at(0).size() == 4);
  REQUIRE(generator.find(1)->finish == Generation::Finish::failed);
  CHECK(generator.find(1)->error->message.starts_with("the KV pool is full"));
}

namespace {

/// A decoder for which there is no memory, once.
class OutOfMemory final : public TextEngine {
 public:
  explicit OutOfMemory(TextEngine& inner) : inner_(inner) {}
  const DecoderShape& shape() const override { return inner_.shape(); }
  KvPages& pages() override { return inner_.pages(); }
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const override {
    inner_.embed(tokens, rows);
  }
  Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) override {
    if (!std::exchange(fails, false)) return inner_.forward(chunks, hidden);
    std::vector<float>().reserve(~std::size_t{0});
    return {};
  }
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override {
    return inner_.logits(hidden, logits);
  }
  bool fails = true;

 private:
  TextEngine& inner_;
};

}  // namespace

TEST_CASE("a forward for which there is no memory ends those who were in it, and no others") {
  Loaded loaded;
  CpuText text(loaded.model.text(), loaded.pool);
  OutOfMemory engine(text);
  Generator generator(engine, nullptr, {});
  GenerationOptions options;
  options.tokens_max = 4;
  generator.add(loaded.request(0, 8, options));
  generator.add(loaded.request(1, 8, options));
  std::vector<std::uint64_t> advanced;
  generator.step(advanced);
  CHECK(advanced == std::vector<std::uint64_t>{0, 1});
  REQUIRE(generator.find(0)->finish == Generation::Finish::failed);
  CHECK(generator.find(0)->error->message.starts_with("the forward could not be run: "));
  generator.add(loaded.request(2, 8, options));
  CHECK(run(generator).at(2).size() == 4);
  forget(loaded, generator);
}

TEST_CASE("what is drawn from is what transformers' processors leave") {
  std::ifstream file(golden + "sampling/cases.json");
  const nlohmann::json cases = nlohmann::json::parse(file, nullptr, false);
  REQUIRE(cases.size() == 6);
  for (const nlohmann::json& one : cases) {
    kernels::SampleOptions options;
    options.temperature = one["options"].value("temperature", 0.0F);
    options.top_k = one["options"].value("top_k", std::size_t{0});
    options.top_p = one["options"].value("top_p", 1.0F);
    options.min_p = one["options"].value("min_p", 0.0F);
    options.repetition_penalty = one["options"].value("repetition_penalty", 1.0F);
    const auto logits = one["logits"].get<std::vector<float>>();
    const auto history = one["history"].get<std::vector<std::int32_t>>();
    const auto want = one["probabilities"].get<std::vector<double>>();
    std::vector<double> got(want.size());
    for (const kernels::Candidate& c : kernels::distribution(logits, history, options))
      got[static_cast<std::size_t>(c.token)] = c.probability;
    INFO(one["options"].dump());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-6));
  }
}
