#include "engine/tasks/generation.h"

#include <algorithm>
#include <string_view>

#include "base/random.h"
#include "engine/tasks/shared_prefix.h"

namespace sluice {

namespace {

/// The n-th random number of a seed, so that a draw does not depend on who else draws.
double uniform_of(std::uint64_t seed, std::size_t n) {
  SplitMix64 random(seed + 0x9e3779b97f4a7c15ULL * (n + 1));
  return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

/// How many bytes at the end of `text` may be the beginning of `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace

std::size_t GenerationTask::tokens_most(const TextEngine& engine) const {
  const Generation& g = generation_;
  const std::size_t prompt = g.rows.size() / engine.shape().block.width;
  const std::size_t answer =
      g.options.tokens_max > g.tokens.size() ? g.options.tokens_max - g.tokens.size() : 0;
  // The answer's last token is never written.
  const std::size_t more = g.in_prompt() ? prompt + std::max<std::size_t>(answer, 1) - 1 : answer;
  return std::max(std::min(g.sequence.tokens() + more, engine.shape().positions_max),
                  g.sequence.tokens());
}

std::optional<Beginning> GenerationTask::beginning() const {
  const Generation& g = generation_;
  if (!g.in_prompt() || !g.options.share_prefix || g.origin.model.empty()) return std::nullopt;
  return Beginning{&g.origin, to_be_found(g)};
}

PagesWanted GenerationTask::pages_wanted(TextEngine& engine) const {
  const Generation& g = generation_;
  const std::size_t prompt = g.rows.size() / engine.shape().block.width;
  const std::size_t most =
      engine.pages().missing(g.sequence, tokens_most(engine) - g.sequence.tokens());
  const std::size_t least = engine.pages().missing(g.sequence, std::max<std::size_t>(prompt, 1));
  return {static_cast<std::uint32_t>(std::min(least, most)), static_cast<std::uint32_t>(most), true,
          g.options.tenant};
}

void GenerationTask::grant(TextEngine& engine, std::size_t pages) {
  Generation& g = generation_;
  engine.pages().belong(g.sequence, g.options.tenant);
  const std::size_t in_pages = engine.pages().room(g.sequence, pages);
  const std::size_t in_positions = engine.shape().positions_max - g.sequence.tokens();
  const std::size_t room = std::min(in_pages, in_positions);
  const std::size_t prompt = g.rows.size() / engine.shape().block.width;
  if (g.options.tokens_max != 0 && room >= prompt) {
    const std::size_t most = g.tokens.size() + room - prompt + (g.in_prompt() ? 1 : 0);
    if (most < g.options.tokens_max) {
      const std::optional<TenantRoom> own = engine.pages().tenant_room(g.options.tenant);
      g.limit = in_positions <= in_pages                  ? Generation::CutOff::positions
                : own.has_value() && own->free() <= pages ? Generation::CutOff::tenant
                                                          : Generation::CutOff::pages;
    }
    g.options.tokens_max = std::min(g.options.tokens_max, most);
  }
  if (g.in_prompt()) {
    const std::size_t had = g.sequence.tokens();
    take_prefix(engine.pages(), g, engine.shape().block.width);
    g.tokens_kept = g.sequence.tokens();
    // What was read back may have gone again, or be less than what it had.
    const std::size_t more = g.tokens_kept > had ? g.tokens_kept : 0;
    g.tokens_read_back = std::min(g.tokens_read_back, more);
    g.tokens_of_folder = std::min(g.tokens_of_folder, g.tokens_read_back);
  }
  // Steps then take no memory.
  const std::size_t more = std::min(g.options.tokens_max, room + 1);
  g.history.reserve(g.history.size() + more);
  g.tokens.reserve(g.tokens.size() + more);
}

Need GenerationTask::need(const TextEngine& engine) const {
  Need need;
  const GenerationOptions& options = generation_.options;
  need.priority = options.priority;
  need.deadline = deadline_of_part(options.began, options.deadline, generation_.tokens.size() + 1,
                                   std::max<std::size_t>(options.tokens_max, 1));
  if (!generation_.in_prompt()) return need;
  need.kind = Need::Kind::prompt;
  need.rows = static_cast<std::uint32_t>(generation_.rows.size() / engine.shape().block.width);
  // A prompt whose rows see each other goes whole.
  need.divisible = generation_.mask == Mask::causal;
  return need;
}

void GenerationTask::lay_out(const TextEngine& engine, std::size_t rows, Work& work) {
  Generation& g = generation_;
  in_step_ = !g.in_prompt();
  if (in_step_) {
    const std::int32_t place =
        g.next_position >= 0 ? g.next_position : static_cast<std::int32_t>(g.sequence.tokens());
    work.step = DecodeStep{
        &g.sequence,         g.history.back(),
        Position::at(place), g.options.sampling,
        g.history,           static_cast<float>(uniform_of(g.options.seed, g.tokens.size()))};
    engine.embed({&g.history.back(), 1}, g.rows);
    g.mask = Mask::causal;
    g.positions.clear();
    if (g.next_position >= 0) g.positions.push_back(Position::at(g.next_position));
  }
  rows_ = rows;
  values_ = rows * engine.shape().block.width;
  Chunk chunk;
  chunk.sequence = &g.sequence;
  chunk.embeddings = std::span(g.rows).first(values_);
  chunk.mask = g.mask;
  if (!g.positions.empty()) chunk.positions = std::span(g.positions).first(rows);
  work.chunks.push_back(chunk);
  work.wants_logits = values_ == g.rows.size() && g.options.tokens_max != 0;
}

void GenerationTask::take(TextEngine& engine, const StepResult& result) {
  Generation& g = generation_;
  publish_rows(engine.pages(), g);
  forget_written();
  if (g.in_prompt()) return;
  if (g.options.tokens_max == 0) {
    g.finish = Generation::Finish::length;
    return;
  }
  take_token(result.token >= 0 ? result.token
                               : kernels::sample(result.logits, g.history, g.options.sampling,
                                                 uniform_of(g.options.seed, g.tokens.size())));
}

Result<void> GenerationTask::begin_behind(TextEngine& engine, std::span<const float> hidden) {
  std::vector<float> logits;
  if (Result<void> made = engine.logits(hidden, logits); !made.ok()) return made;
  take_token(kernels::sample(logits, generation_.history, generation_.options.sampling,
                             uniform_of(generation_.options.seed, 0)));
  return {};
}

void GenerationTask::fail(const Error& error) {
  generation_.finish = Generation::Finish::failed;
  generation_.error = error;
}

/// Rows that are in their pages now.
void GenerationTask::forget_written() {
  Generation& g = generation_;
  g.rows.erase(g.rows.begin(), g.rows.begin() + static_cast<std::ptrdiff_t>(values_));
  if (!g.positions.empty())
    g.positions.erase(g.positions.begin(),
                      g.positions.begin() + static_cast<std::ptrdiff_t>(rows_));
  if (in_step_ && g.next_position >= 0) ++g.next_position;
}

void GenerationTask::take_token(std::int32_t token) {
  Generation& g = generation_;
  if (std::ranges::find(g.options.end_tokens, token) != g.options.end_tokens.end()) {
    g.finish = Generation::Finish::end_token;
    g.end_token = token;
  } else {
    g.history.push_back(token);
    g.tokens.push_back(token);
    if (g.tokens.size() >= g.options.tokens_max) g.finish = Generation::Finish::length;
  }
  read();
}

void GenerationTask::read() {
  if (tokenizer_ == nullptr) return;
  Generation& g = generation_;
  g.decoded.advance(*tokenizer_, g.tokens);
  const std::string& whole = g.decoded.text();
  const std::size_t shown = g.text.size();
  std::size_t end = whole.size();
  // Bytes that are not a whole character yet stand there as U+FFFD: they may become anything, the
  // next character of a stop string too.
  std::string_view clear = whole;
  while (clear.ends_with("\xef\xbf\xbd")) clear.remove_suffix(3);
  std::size_t held = 0;
  for (const std::string& stop : g.options.stop) {
    if (stop.empty()) continue;
    // What has been shown holds no stop string and no beginning of one.
    const std::size_t at = whole.find(stop, shown);
    if (at != std::string::npos) {
      end = std::min(end, at);
      g.finish = Generation::Finish::stop;
    }
    held = std::max(held, overlap(clear, stop));
  }
  // What may become a stop string is kept back, and so is an unfinished character, until it is
  // clear.
  if (g.finish == Generation::Finish::none) end = clear.size() - held;
  if (end > shown) g.text.append(whole, shown, end - shown);
}

}  // namespace sluice
