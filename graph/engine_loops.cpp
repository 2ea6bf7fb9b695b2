// What bounds loops and frames that multiply: the turns of one chain of frames, and what comes to
// one node in a call.
#include <algorithm>
#include <utility>

#include "base/count_text.h"
#include "graph/engine.h"

namespace sluice {

std::unique_ptr<Failure> Engine::merge_iterations(Record& record) const {
  record.iterations.assign(plan_.loop_nodes, 0);
  for (const Arrival& arrival : record.arrivals)
    for (std::size_t i = 0; i < arrival.frame->iterations.size(); ++i)
      record.iterations[i] = std::max(record.iterations[i], arrival.frame->iterations[i]);
  if (node_.loop_index == none) return nullptr;
  const std::int64_t turn = record.iterations[node_.loop_index];
  if (turn < std::min<std::int64_t>(plan_.limits.loop_iterations, 0xffff)) return nullptr;
  return std::make_unique<Failure>(Failure{
      node_.id,
      {ErrorCode::exhausted, "node '" + node_.name + "' reached the limit of " +
                                 count_text(plan_.limits.loop_iterations, "loop iteration") +
                                 " (limits: loop_iterations)"},
      FailureKind::loop_limit});
}

bool Engine::is_one_too_many(const Record& record) {
  if (counted_ == nullptr || counted_of_ != record.call) {
    counted_ = &call_record(record.call, record.session);
    counted_of_ = record.call;
  }
  CallRecord& call = *counted_;
  const std::uint32_t more = node_.fan_out();
  call.came += more;
  return call.came > plan_.limits.frames && call.came - more <= plan_.limits.frames;
}

void Engine::tell_too_many(Record& record, Effects& effects) {
  // The home cancels the call; until it is heard here too, no more is started: what is under way
  // could bring many times the limit.
  cancel_call(record.call, effects);
  Notice notice;
  notice.failure = std::make_unique<Failure>(
      Failure{node_.id,
              {ErrorCode::exhausted,
               "node '" + node_.name + "' reached the limit of " +
                   count_text(plan_.limits.frames, "frame") +
                   (node_.loop_index != none
                        ? " for a node of a loop (limits: frames); they multiply where a turn "
                          "makes several for the next"
                        : " that come to a node in one call (limits: frames); they multiply where "
                          "one node after the other may yield several (a role that yields one says "
                          "so: yields_max: 1), or one frame comes several ways")},
              FailureKind::frame_limit});
  Shares nothing;
  record.credit.refine();
  splitter_.settle(nothing, {}, record.credit.take(record.credit.amount / 2), record.call,
                   record.session, std::move(notice), effects);
}

}  // namespace sluice
