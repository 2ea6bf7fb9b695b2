// Of an engine: whether as many frames came as the role reads.

#include <algorithm>
#include <bit>

#include "base/count_text.h"
#include "graph/engine.h"

namespace sluice {

std::unique_ptr<Failure> Engine::check_frames(const Record& record, const PlanGroup& group) const {
  std::uint64_t came = 0, again = 0;
  for (const InputValue& input : record.inputs) {
    const std::uint64_t bit = std::uint64_t{1} << input.field;
    again |= came & bit;
    came |= bit;
  }
  const std::uint64_t wrong = (again & group.single) | (group.needed & ~came);
  if (wrong == 0) return nullptr;
  const auto field = static_cast<std::uint16_t>(std::countr_zero(wrong));
  const auto frames = std::ranges::count(record.inputs, field, &InputValue::field);
  return std::make_unique<Failure>(Failure{
      node_.id,
      {ErrorCode::invalid_argument, count_text(frames, "frame") + " of '" + group.fields[field] +
                                        "' came, and '" + node_.run + "' reads one"},
      FailureKind::role_failed});
}

}  // namespace sluice
