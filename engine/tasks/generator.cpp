#include "engine/tasks/generator.h"

#include <algorithm>

#include "base/random.h"

namespace sluice {

namespace {

/// The n-th random number of a seed, so that a draw does not depend on who else draws.
double uniform_of(std::uint64_t seed, std::size_t n) {
  SplitMix64 random(seed + 0x9e3779b97f4a7c15ULL * (n + 1));
  return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

/// How many bytes at the end of `text` may be the beginning of `stop`.
std::size_t overlap(const std::string& text, const std::string& stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
  return 0;
}

}  // namespace

std::optional<Generation> Generator::remove(std::uint64_t id) {
  const auto it = std::ranges::find(queue_, id, &Generation::id);
  if (it == queue_.end()) return std::nullopt;
  Generation taken = std::move(*it);
  queue_.erase(it);
  return taken;
}

const Generation* Generator::find(std::uint64_t id) const {
  const auto it = std::ranges::find(queue_, id, &Generation::id);
  return it == queue_.end() ? nullptr : &*it;
}

bool Generator::busy() const {
  return std::ranges::any_of(
      queue_, [](const Generation& g) { return g.finish == Generation::Finish::none; });
}

void Generator::plan(std::vector<Turn>& turns) {
  std::size_t left = budget_.tokens;
  // Answers first: they are what somebody waits for, and cost one token each.
  for (Generation& generation : queue_) {
    if (left == 0 || turns.size() == budget_.sequences) break;
    if (generation.finish != Generation::Finish::none || generation.in_prompt()) continue;
    turns.push_back({&generation, 1});
    --left;
  }
  for (Generation& generation : queue_) {
    if (left == 0 || turns.size() == budget_.sequences) break;
    if (generation.finish != Generation::Finish::none || !generation.in_prompt()) continue;
    const std::size_t wanted = generation.rows.size() / width();
    // A prompt whose rows see each other goes whole: when it fits, or when it is alone.
    if (generation.mask == Mask::block && wanted > left && !turns.empty()) continue;
    const std::size_t count = generation.mask == Mask::block ? wanted : std::min(wanted, left);
    turns.push_back({&generation, count});
    left -= std::min(count, left);
  }
}

Chunk Generator::chunk_of(const Turn& turn) const {
  const Generation& generation = *turn.generation;
  Chunk chunk;
  chunk.sequence = &turn.generation->sequence;
  chunk.embeddings = std::span(generation.rows).first(turn.count * width());
  chunk.mask = generation.mask;
  if (!generation.positions.empty())
    chunk.positions = std::span(generation.positions).first(turn.count);
  return chunk;
}

void Generator::step(std::vector<std::uint64_t>& advanced) {
  std::vector<Turn> turns;
  plan(turns);
  last_tokens_ = 0;
  for (const Turn& turn : turns) last_tokens_ += turn.count;
  if (turns.empty() || step_on_engine(turns, advanced)) return;
  for (const Turn& turn : turns) {
    Generation& generation = *turn.generation;
    if (generation.in_prompt()) continue;
    engine_.embed({&generation.history.back(), 1}, generation.rows);
    generation.mask = Mask::causal;
    generation.positions.clear();
    if (generation.next_position >= 0)
      generation.positions.push_back(Position::at(generation.next_position++));
  }
  forward(turns, advanced);
}

bool Generator::step_on_engine(std::span<Turn> turns, std::vector<std::uint64_t>& advanced) {
  std::vector<DecodeStep> steps;
  for (const Turn& turn : turns) {
    Generation& generation = *turn.generation;
    if (generation.in_prompt() || !engine_.steps(generation.options.sampling)) return false;
    const std::int32_t place = generation.next_position >= 0
                                   ? generation.next_position
                                   : static_cast<std::int32_t>(generation.sequence.tokens);
    steps.push_back(
        {&generation.sequence, generation.history.back(), Position::at(place),
         generation.options.sampling, generation.history,
         static_cast<float>(uniform_of(generation.options.seed, generation.tokens.size()))});
  }
  std::vector<std::int32_t> next;
  // What does not fit is sorted out by `forward`, one by one.
  if (!engine_.step(steps, next).ok()) return false;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    Generation& generation = *turns[i].generation;
    if (generation.next_position >= 0) ++generation.next_position;
    take(generation, next[i]);
    advanced.push_back(generation.id);
  }
  return true;
}

void Generator::forward(std::span<Turn> turns, std::vector<std::uint64_t>& advanced) {
  std::vector<Chunk> chunks;
  for (const Turn& turn : turns) chunks.push_back(chunk_of(turn));
  std::vector<float> hidden;
  Result<void> ran = engine_.forward(chunks, hidden);
  if (!ran.ok() && turns.size() > 1) {
    // All together do not fit: one by one, so that only what does not fit fails.
    for (std::size_t i = 0; i < turns.size(); ++i) forward(turns.subspan(i, 1), advanced);
    return;
  }
  // The last rows of all that have their prompt behind them go through the head together.
  std::vector<Generation*> speak;
  std::vector<float> last, logits;
  std::size_t at = 0;
  for (const Turn& turn : turns) {
    if (!ran.ok()) break;
    forget_written(turn);
    at += turn.count * width();
    if (turn.generation->in_prompt()) continue;
    speak.push_back(turn.generation);
    last.insert(last.end(), hidden.begin() + static_cast<std::ptrdiff_t>(at - width()),
                hidden.begin() + static_cast<std::ptrdiff_t>(at));
  }
  if (ran.ok() && !speak.empty()) ran = engine_.logits(last, logits);
  if (!ran.ok()) {
    for (const Turn& turn : turns) {
      turn.generation->finish = Generation::Finish::failed;
      turn.generation->error = ran.error();
      advanced.push_back(turn.generation->id);
    }
    return;
  }
  const std::size_t vocabulary = engine_.shape().vocabulary;
  for (std::size_t i = 0; i < speak.size(); ++i) {
    choose(*speak[i], std::span(logits).subspan(i * vocabulary, vocabulary));
    advanced.push_back(speak[i]->id);
  }
}

/// Rows that are in their pages now.
void Generator::forget_written(const Turn& turn) const {
  Generation& generation = *turn.generation;
  const auto rows = static_cast<std::ptrdiff_t>(turn.count * width());
  generation.rows.erase(generation.rows.begin(), generation.rows.begin() + rows);
  if (generation.positions.empty()) return;
  generation.positions.erase(
      generation.positions.begin(),
      generation.positions.begin() + static_cast<std::ptrdiff_t>(turn.count));
}

void Generator::choose(Generation& generation, std::span<const float> logits) const {
  const GenerationOptions& options = generation.options;
  take(generation, kernels::sample(logits, generation.history, options.sampling,
                                   uniform_of(options.seed, generation.tokens.size())));
}

void Generator::take(Generation& generation, std::int32_t token) const {
  const GenerationOptions& options = generation.options;
  if (std::ranges::find(options.end_tokens, token) != options.end_tokens.end()) {
    generation.finish = Generation::Finish::end_token;
  } else {
    generation.history.push_back(token);
    generation.tokens.push_back(token);
    if (generation.tokens.size() >= options.tokens_max)
      generation.finish = Generation::Finish::length;
  }
  read(generation);
}

void Generator::read(Generation& generation) const {
  if (tokenizer_ == nullptr) return;
  generation.decoded.advance(*tokenizer_, generation.tokens);
  const std::string& whole = generation.decoded.text();
  const std::size_t shown = generation.text.size();
  std::size_t end = whole.size();
  std::size_t held = 0;
  for (const std::string& stop : generation.options.stop) {
    if (stop.empty()) continue;
    // What has been shown holds no stop string and no beginning of one.
    const std::size_t at = whole.find(stop, shown);
    if (at != std::string::npos) {
      end = std::min(end, at);
      generation.finish = Generation::Finish::stop;
    }
    held = std::max(held, overlap(whole, stop));
  }
  // What may become a stop string is kept back, and so is an unfinished character, until it is
  // clear.
  if (generation.finish == Generation::Finish::none) {
    end -= held;
    while (end >= 3 && whole.compare(end - 3, 3, "\xef\xbf\xbd") == 0) end -= 3;
  }
  if (end > shown) generation.text.append(whole, shown, end - shown);
}

}  // namespace sluice
