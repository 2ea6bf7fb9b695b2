#include "engine/tasks/shared_prefix.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace sluice {

namespace {

/// Of so few rows another product is made than of more, with other last bits.
constexpr std::size_t few_rows = 4;

/// Its rows are those behind the sequence that it has.
void begin_with(KvSequence sequence, Generation& generation, std::size_t width) {
  const auto kept = static_cast<std::ptrdiff_t>(sequence.tokens() - generation.sequence.tokens());
  generation.sequence = std::move(sequence);
  generation.rows.erase(generation.rows.begin(),
                        generation.rows.begin() + kept * static_cast<std::ptrdiff_t>(width));
  if (!generation.positions.empty())
    generation.positions.erase(generation.positions.begin(), generation.positions.begin() + kept);
}

}  // namespace

/// Where a prompt has rows of numbers a drawing may follow, which shows what no word does: so many
/// more are computed that most have the bits that they have where nothing is found.
std::span<const std::int32_t> to_be_found(const Generation& generation) {
  const std::span<const std::int32_t> all = generation.history;
  const bool may_draw = generation.origin.picture_token == numbers_token;
  return all.first(all.size() - std::min(all.size(), may_draw ? few_rows : 0));
}

void take_prefix(const KvPages& pages, Generation& generation, std::size_t width) {
  if (!generation.options.share_prefix) return;
  KvSequence found = pages.open(generation.origin, to_be_found(generation));
  if (found.tokens() > generation.sequence.tokens())
    begin_with(std::move(found), generation, width);
}

std::size_t take_prefix(KvPages& pages, KvSequence sequence, const RowsOrigin& before,
                        std::span<const std::int32_t> tokens, Generation& generation,
                        std::size_t width, bool others) {
  const std::size_t same =
      rows_in_common(before, tokens.first(std::min(tokens.size(), sequence.tokens())),
                     generation.origin, generation.history);
  pages.truncate(sequence, std::min(same, generation.history.size() - 1));
  if (others && generation.options.share_prefix) {
    KvSequence found = pages.open(generation.origin, generation.history);
    if (found.tokens() > sequence.tokens()) sequence = std::move(found);
  }
  const std::size_t kept = sequence.tokens();
  begin_with(std::move(sequence), generation, width);
  return kept;
}

void publish_rows(KvPages& pages, Generation& generation) {
  if (generation.options.share_prefix)
    pages.publish(generation.sequence, generation.origin, generation.history);
}

}  // namespace sluice
