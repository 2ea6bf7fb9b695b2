// Answers, drawings and works of two experts in one engine, by chance, over a model that is a few
// sums and fails at times: who was in each forward and what came of it, beside what it was before.
//
// The model is exact on every machine: a row's key is written to its page, and what a row becomes
// is a sum over the keys that it sees, so a row that is missing, stands twice or is another's
// shows.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <memory>
#include <new>

#include "base/random.h"
#include "engine/policy/flow_policy.h"
#include "engine/tasks/drawing.h"
#include "engine/tasks/generation.h"
#include "engine/tasks/model_engine.h"
#include "engine/tasks/shared_prefix.h"
#include "tests/directories.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

constexpr std::size_t width = 4;
constexpr std::size_t vocabulary = 17;

struct Chance {
  explicit Chance(std::uint64_t seed) : random(seed) {}
  std::uint64_t pick(std::uint64_t most) { return random.next() % (most + 1); }
  bool one_of(std::uint64_t count) { return random.next() % count == 0; }
  SplitMix64 random;
};

class SumsText final : public TextEngine {
 public:
  SumsText(Chance& chance, std::size_t page_tokens, std::size_t pages, bool fails)
      : chance_(chance), fails_(fails), pool_({1, 1, page_tokens}, pages) {
    shape_.block.width = width;
    shape_.vocabulary = vocabulary;
    shape_.positions_max = 20 + chance.pick(40);
    chooses_ = chance.one_of(3);
  }
  const DecoderShape& shape() const override { return shape_; }
  KvPool& pages() override { return pool_; }
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const override {
    rows.clear();
    for (const std::int32_t token : tokens)
      for (std::size_t i = 0; i < width; ++i)
        rows.push_back(static_cast<float>(i == 0 ? token + 1 : 2));
  }
  Result<void> forward(std::span<const Chunk> chunks, std::vector<float>& hidden) override {
    return run(chunks, width, hidden);
  }
  Result<void> forward_expert(const Decoder& expert, std::span<const Chunk> chunks,
                              std::vector<float>& hidden) override {
    return run(chunks, expert.width(), hidden);
  }
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override {
    if (fails_ && chance_.one_of(40)) return invalid_argument("no logits");
    logits.clear();
    for (std::size_t row = 0; row < hidden.size(); row += width)
      for (std::size_t v = 0; v < vocabulary; ++v)
        logits.push_back(
            static_cast<float>((static_cast<std::size_t>(hidden[row]) * 31 + v * 12) % 23));
    return {};
  }
  bool steps(const kernels::SampleOptions& options) const override {
    return chooses_ && options.top_k == 0;
  }
  Result<void> step(std::span<const DecodeStep> steps, std::vector<std::int32_t>& tokens) override {
    tokens.clear();
    for (const DecodeStep& one : steps) {
      std::vector<float> row, hidden, logits;
      embed({&one.token, 1}, row);
      Chunk chunk{one.sequence, row};
      chunk.positions = {&one.position, 1};
      if (fails_ && chance_.one_of(30)) return Error{ErrorCode::unavailable, "the device is gone"};
      if (Result<void> ran = write({&chunk, 1}, width, hidden); !ran.ok()) return ran;
      logits.resize(vocabulary);
      for (std::size_t v = 0; v < vocabulary; ++v)
        logits[v] = static_cast<float>((static_cast<std::size_t>(hidden[0]) * 31 + v * 12) % 23);
      tokens.push_back(kernels::sample(logits, one.history, one.sampling, double{one.uniform}));
    }
    return {};
  }

 private:
  Result<void> run(std::span<const Chunk> chunks, std::size_t of_width,
                   std::vector<float>& hidden) {
    if (fails_ && chance_.one_of(25)) return Error{ErrorCode::unavailable, "the link is gone"};
    const bool throws = fails_ && chance_.one_of(60);
    const Result<void> ran = write(chunks, of_width, hidden);
    if (throws) throw std::bad_alloc();  // behind the rows' places
    return ran;
  }
  Result<void> write(std::span<const Chunk> chunks, std::size_t of_width,
                     std::vector<float>& hidden) {
    hidden.clear();
    for (const Chunk& chunk : chunks) {
      KvSequence& sequence = *chunk.sequence;
      const std::size_t before = sequence.tokens();
      const std::size_t count = chunk.embeddings.size() / of_width;
      if (Result<void> room = pool_.extend(sequence, count); !room.ok()) return room;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = before + i;
        const std::int32_t place =
            chunk.positions.empty() ? static_cast<std::int32_t>(at) : chunk.positions[i].t;
        key(sequence, at) = chunk.embeddings[i * of_width] + static_cast<float>(3 * place);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t sees = chunk.mask == Mask::causal ? before + i + 1 : before + count;
        float sum = static_cast<float>(chunk.condition);
        for (std::size_t at = 0; at < sees; ++at)
          sum += key(sequence, at) * static_cast<float>(1 + at % 5);
        for (std::size_t v = 0; v < of_width; ++v)
          hidden.push_back(sum + static_cast<float>(v) + chunk.embeddings[i * of_width + v]);
      }
    }
    return {};
  }
  float& key(const KvSequence& sequence, std::size_t at) {
    const std::size_t in_page = pool_.shape().page_tokens;
    return pool_.keys(sequence.pages()[at / in_page], 0)[at % in_page];
  }

  Chance& chance_;
  bool fails_, chooses_ = false;
  DecoderShape shape_;
  KvPool pool_;
};

/// Steps whose latents are what the rows became.
class SumsSteps final : public DrawingSteps {
 public:
  SumsSteps(std::size_t steps, std::size_t rows, bool guided)
      : left_(steps), guided_(guided), latents_(rows * width, 1.0F) {}
  std::size_t left() const override { return left_; }
  bool is_guided() const override { return guided_; }
  std::size_t rows() const override { return latents_.size() / width; }
  void lay_out(DrawingRows& step) override {
    step.rows = latents_;
    step.condition = static_cast<std::uint32_t>(left_);
    step.unguided = static_cast<std::uint32_t>(100 + left_);
  }
  void take(std::span<const float> with, std::span<const float> without) override {
    for (std::size_t i = 0; i < latents_.size(); ++i)
      latents_[i] =
          static_cast<float>(static_cast<int>(with[i] + (guided_ ? 3 * without[i] : 0.0F)) % 1000);
    --left_;
  }
  std::vector<float> take_latents() override { return latents_; }

 private:
  std::size_t left_;
  bool guided_;
  std::vector<float> latents_;
};

/// Some forwards of an expert over a sequence that stays as it is.
class ExpertTask final : public Task {
 public:
  ExpertTask(const Decoder& expert, std::size_t rows, std::size_t works)
      : expert_(expert), rows_(rows * expert.width(), 1.0F), works_(works) {}
  bool done() const override { return works_ == 0 || error.has_value(); }
  PagesWanted pages_wanted(TextEngine& engine) const override {
    const auto pages =
        static_cast<std::uint32_t>(engine.pages().pages_for(rows_.size() / expert_.width()));
    return {pages, pages};
  }
  std::size_t pages_taken() const override { return sequence_.pages().size(); }
  Need need(const TextEngine&) const override {
    Need made;
    made.rows = static_cast<std::uint32_t>(rows_.size() / expert_.width());
    return made;
  }
  void lay_out(const TextEngine&, std::size_t, Work& work) override {
    work.chunks.push_back({&sequence_, rows_, Mask::block});
    work.expert = &expert_;
    work.is_scratch = true;
  }
  void take(TextEngine&, const StepResult& result) override {
    --works_;
    REQUIRE(result.hidden.size() == rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i)
      rows_[i] = static_cast<float>(static_cast<int>(result.hidden[i]) % 777);
  }
  void fail(const Error& why) override { error = why; }
  std::string words() const {
    return std::to_string(works_) + " left, " + std::to_string(static_cast<int>(rows_.back())) +
           ", " + std::to_string(sequence_.tokens()) + " tokens" + (error ? error->message : "");
  }
  std::optional<Error> error;

 private:
  const Decoder& expert_;
  KvSequence sequence_;
  std::vector<float> rows_;
  std::size_t works_;
};

/// Pages that come when chance says so.
class ChanceSource final : public PageSource {
 public:
  explicit ChanceSource(Chance& chance) : chance_(chance) {}
  bool begin(std::uint64_t task, const RowsOrigin& origin, std::span<const std::int32_t> tokens,
             std::optional<double> per_token, std::int64_t) override {
    heard += " asked for " + std::to_string(task) + " of " + origin.model + " with " +
             std::to_string(tokens.size()) + (per_token ? " known" : "");
    if (per_token) CHECK(*per_token >= 0);
    if (chance_.one_of(2)) return false;
    waits_.push_back(task);
    return true;
  }
  void forget(std::uint64_t task) override {
    heard += " forgets " + std::to_string(task);
    std::erase(waits_, task);
  }
  void poll(std::int64_t, std::vector<Ready>& ready, std::chrono::nanoseconds most) override {
    heard += most.count() > 0 ? " waits" : " looks";
    while (!waits_.empty() && chance_.one_of(2)) {
      ready.push_back({waits_.front(), chance_.pick(12)});
      waits_.erase(waits_.begin());
    }
  }
  bool is_waited_for() const override { return !waits_.empty(); }
  std::size_t pages_awaited() const override { return waits_.size(); }
  std::string heard;

 private:
  Chance& chance_;
  std::vector<std::uint64_t> waits_;
};

const Tokenizer& letters() {
  static const Tokenizer made =
      Tokenizer::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3,
      "<0xe2>": 4, "<0x82>": 5, "<0xAC>": 6, "d": 7, "bc": 8, "abcd": 9, "x": 10, "y": 11, "z": 12,
      "\u20ac": 13, "e": 14, "f": 15, "g": 16}, "merges": []}, "decoder": {"type": "Sequence",
      "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}})",
                       "t")
          .value();
  return made;
}

/// Two action experts of different widths.
struct Experts {
  Model first = Model::open(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/pi0").value();
  Model second = Model::open(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/smolvla").value();
  FlowPolicy of_first = FlowPolicy::load(first).value();
  FlowPolicy of_second = FlowPolicy::load(second).value();
};
const Decoder& expert(bool second) {
  static const Experts made;
  return second ? made.of_second.expert() : made.of_first.expert();
}

struct World {
  explicit World(std::uint64_t seed)
      : chance(seed),
        text(chance, 2 + chance.pick(3), 6 + chance.pick(24), seed % 3 != 0),
        source(chance),
        engine(text, options()) {
    if (chance.one_of(2)) engine.use(&source);
    engine.watch = [this](const ForwardRecord& record) {
      heard += " ran";
      for (const BatchItem& item : record.items)
        heard += ' ' + std::to_string(item.task) + ':' + std::to_string(item.rows);
      CHECK((record.began > 0 && record.took >= 0));
    };
    engine.make_room = [this](const Planner& planner) {
      heard += " room" + std::to_string(planner.waiting());
    };
  }
  PlannerOptions options() {
    PlannerOptions made;
    made.budget = static_cast<std::uint32_t>(3 + chance.pick(30));
    made.tasks_most = static_cast<std::uint32_t>(1 + chance.pick(6));
    made.wait_most = static_cast<std::uint32_t>(1 + chance.pick(6));
    return made;
  }
  std::vector<std::int32_t> tokens(std::size_t most) {
    const std::uint64_t kind = chance.pick(2), cut = chance.pick(8);
    std::vector<std::int32_t> made;
    for (std::size_t i = 0, count = 1 + chance.pick(most - 1); i < count; ++i)
      made.push_back(static_cast<std::int32_t>(i < cut ? kind : chance.pick(vocabulary - 1)));
    return made;
  }
  GenerationOptions answer_options() {
    GenerationOptions made;
    made.tokens_max = chance.one_of(8) ? 0 : chance.pick(14);
    made.seed = chance.pick(3);
    made.sampling.temperature = chance.one_of(2) ? 0.0F : 4.0F;
    made.sampling.top_k = chance.one_of(3) ? 5 : 0;
    if (chance.one_of(3)) made.end_tokens = {12, 5};
    if (chance.one_of(3)) made.stop = {"", "bcx", "abcd", "\xe2\x82\xac"};
    made.share_prefix = !chance.one_of(4);
    made.first_only = chance.one_of(5);
    return made;
  }
  /// Of a new conversation, or of one that goes on.
  Generation answer() {
    Generation made;
    made.options = answer_options();
    made.origin.model = chance.one_of(5) ? "" : "sums";
    made.history = tokens(16);
    if (chance.one_of(6)) {
      made.mask = Mask::block;
      made.origin.block = made.history.size();
    }
    text.embed(made.history, made.rows);
    if (made.mask == Mask::causal && chance.one_of(5)) {
      made.options.share_prefix = false;
      for (std::size_t i = 0; i < made.history.size(); ++i)
        made.positions.push_back(Position::at(static_cast<std::int32_t>(2 * i)));
      made.next_position = static_cast<std::int32_t>(2 * made.history.size() + 5);
    }
    if (kept.has_value() && chance.one_of(2)) {
      Generation before = *std::exchange(kept, std::nullopt);
      if (made.positions.empty())
        heard += " keeps " +
                 std::to_string(take_prefix(text.pages(), std::move(before.sequence), before.origin,
                                            before.history, made, width, chance.one_of(2)));
    }
    return made;
  }
  void add() {
    const TaskId id = next++;
    const std::uint64_t kind = chance.pick(9);
    if (kind < 6) {
      auto task =
          std::make_unique<GenerationTask>(answer(), chance.one_of(4) ? nullptr : &letters());
      if (task->done()) return;
      answers[id] = task.get();
      tasks[id] = std::move(task);
    } else if (kind < 8) {
      auto steps =
          std::make_unique<SumsSteps>(1 + chance.pick(4), 1 + chance.pick(5), chance.one_of(2));
      KvSequence prompt;
      if (kept.has_value()) prompt = text.pages().fork(kept->sequence);
      auto task = std::make_unique<Drawing>(
          std::move(steps), std::move(prompt),
          chance.one_of(2) ? std::vector<std::int32_t>{3, 1, 4} : std::vector<std::int32_t>(),
          DrawingOptions{static_cast<std::uint8_t>(chance.pick(2)), 0, no_deadline});
      drawings[id] = task.get();
      tasks[id] = std::move(task);
    } else {
      auto task = std::make_unique<ExpertTask>(expert(chance.one_of(2)), 1 + chance.pick(5),
                                               1 + chance.pick(3));
      experts[id] = task.get();
      tasks[id] = std::move(task);
    }
    heard += " adds " + std::to_string(id);
    engine.add(id, *tasks[id]);
  }
  std::string words(TaskId id) const {
    std::string said = "; " + std::to_string(id) + (tasks.at(id)->done() ? " done " : " ");
    if (const auto it = drawings.find(id); it != drawings.end()) {
      const auto& why = it->second->error();
      said += why ? why->message : "draws";
      if (it->second->done() && !why)
        for (const float value : it->second->take_latents())
          said += ' ' + std::to_string(static_cast<int>(value));
    } else if (const auto found = experts.find(id); found != experts.end()) {
      said += found->second->words();
    } else {
      const GenerationTask& task = *answers.at(id);
      const Generation& g = task.generation();
      for (const std::int32_t token : g.tokens) said += std::to_string(token) + ' ';
      said += "'" + g.text + "' " + std::to_string(static_cast<int>(g.finish)) + ' ' +
              std::to_string(g.end_token) + ' ' + std::to_string(static_cast<int>(task.cut_off())) +
              ' ' + std::to_string(g.options.tokens_max) + ", kept " +
              std::to_string(g.tokens_kept) + ' ' + std::to_string(g.tokens_read_back) + ", " +
              std::to_string(g.sequence.tokens()) + " tokens, " + std::to_string(g.rows.size()) +
              " left, published " + std::to_string(g.sequence.published()) + ", next " +
              std::to_string(g.next_position) + ' ' + std::to_string(g.positions.size()) +
              (g.error ? ' ' + g.error->message : "");
    }
    return said;
  }
  /// Takes one out; an answer may go on, or be kept for what its session says next.
  void remove() {
    if (tasks.empty()) return;
    auto it = tasks.begin();
    std::advance(it, chance.pick(tasks.size() - 1));
    const TaskId id = it->first;
    const auto answer = answers.find(id);
    const bool ended = tasks[id]->done();
    if (!ended && !chance.one_of(6)) return;
    const bool goes_on = answer != answers.end() && ended && chance.one_of(2) &&
                         engine.planner().is_admitted(id) &&
                         answer->second->generation().finish == Generation::Finish::none;
    if (!goes_on) engine.remove(id);
    heard += (goes_on ? " goes on " : " removes ") + std::to_string(id);
    if (answer != answers.end()) {
      Generation taken = answer->second->release();
      if (goes_on) {
        taken.options.first_only = false;
        auto task = std::make_unique<GenerationTask>(std::move(taken), &letters());
        answers[next] = task.get();
        engine.go_on(id, next, *task);
        tasks[next++] = std::move(task);
      } else if (chance.one_of(2)) {
        kept = std::move(taken);
      }
    }
    answers.erase(id);
    drawings.erase(id);
    experts.erase(id);
    tasks.erase(id);
  }
  std::string step() {
    heard.clear();
    source.heard.clear();
    for (std::uint64_t n = chance.pick(2); n > 0 && tasks.size() < 7; --n) add();
    std::vector<TaskId> advanced;
    const bool ran = engine.step(advanced);
    std::string line = ran ? "forward" : "nothing";
    for (const TaskId id : advanced) line += ' ' + std::to_string(id);
    line += " |" + heard + " |" + source.heard;
    for (const TaskId id : advanced) line += words(id);
    heard.clear();
    for (std::uint64_t n = chance.pick(2); n > 0; --n) remove();
    return line + " |" + heard + "; " + std::to_string(text.pages().pages_free()) + " free, " +
           std::to_string(text.pages().pages_cached()) + " cached, " +
           std::to_string(engine.planner().promised()) + " reserved, " +
           std::to_string(engine.planner().waiting()) + " wait" + (engine.empty() ? ", empty" : "");
  }

  Chance chance;
  SumsText text;
  ChanceSource source;
  std::string heard;
  std::optional<Generation> kept;
  std::map<TaskId, std::unique_ptr<Task>> tasks;
  std::map<TaskId, GenerationTask*> answers;
  std::map<TaskId, Drawing*> drawings;
  std::map<TaskId, ExpertTask*> experts;
  ModelEngine engine;
  TaskId next = 1;
};

std::vector<std::string> play(std::uint64_t seed, int steps) {
  World world(seed);
  std::vector<std::string> journal;
  for (int i = 0; i < steps; ++i) journal.push_back(world.step());
  while (!world.tasks.empty()) world.remove();
  world.kept.reset();
  REQUIRE(world.engine.empty());
  REQUIRE(world.text.pages().pages_free() == world.text.pages().pages());
  return journal;
}

}  // namespace

TEST_CASE("an engine of many kinds of tasks, over a model that fails at times, runs as before") {
  test::Outcomes outcomes("engine_tasks");
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {  // to be read
    const auto journal = play(seed, 25);
    for (const std::string& line : journal) outcomes.add("chance " + std::to_string(seed), line);
  }
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    outcomes.add("digests", test::digest_of(play(seed, 120)));
  outcomes.require_as_kept();
}
