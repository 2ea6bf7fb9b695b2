// C27: a node drops only what it may, when it may, and its caller hears of each.
#include <algorithm>

#include "runtime/sim/oracle.h"

namespace sluice::sim {

bool Oracle::drops_frames(NodeId id) const {
  const PlanNode& node = plan_.nodes[id];
  return node.queue_max != 0 && std::ranges::all_of(node.groups, [](const PlanGroup& group) {
           return group.collector == none;
         });
}

void Oracle::came(NodeId node, FrameNumber frame, CallFacts& call) {
  if (!drops_frames(node)) return;
  call.queues.resize(plan_.nodes.size());
  call.queues[node].frames.push_back(frame);
}

void Oracle::not_started(const NotStarted& inputs) {
  const std::size_t index = call_of(inputs.call);
  CallFacts& call = calls_[index];
  const PlanNode& node = plan_.nodes[inputs.node];
  const std::string where = "call " + std::to_string(index) + ", node '" + node.name + "'";
  if (node.queue_max == 0) return violated("C27: " + where + " does without inputs, and never may");
  call.queues.resize(plan_.nodes.size());
  Queue& queue = call.queues[inputs.node];
  queue.dropped += inputs.dropped ? 1 : 0;
  if (!drops_frames(inputs.node) || call.given_up) return;
  const FrameNumber frame = inputs.value ? frame_of(*inputs.value) : 0;
  const auto found = std::ranges::find(queue.frames, frame);
  if (found == queue.frames.end())
    return violated("C27: " + where + " does without a frame that did not wait for it");
  if (inputs.dropped && queue.frames.size() <= node.queue_max)
    violated("C27: " + where + " drops a frame while " + std::to_string(queue.frames.size()) +
             " wait, of " + std::to_string(node.queue_max) + " that may");
  const auto is_older = [&](FrameNumber other) {
    return compare(frames_[other], frames_[frame]) < 0;
  };
  const bool older = node.order == none ? found != queue.frames.begin()
                                        : std::ranges::any_of(queue.frames, is_older);
  if (inputs.dropped && older) violated("C27: " + where + " drops a frame that is not the oldest");
  queue.frames.erase(found);
}

void Oracle::check_at_once(const StartActivation& start, const CallFacts& call) {
  const PlanNode& node = plan_.nodes[start.node];
  const auto running = std::ranges::count_if(call.running, [&](ActivationNumber number) {
    return activations_[number].node == start.node;
  });
  const std::int64_t most = std::int64_t{node.at_once()} * node.fan_out();
  if (running > most)
    violated("C27: " + where(start) + " makes " + std::to_string(running) + " run, of " +
             std::to_string(most) + " that may");
}

void Oracle::check_waiting(std::size_t index, std::vector<std::size_t>* longest) {
  const CallFacts& call = calls_[index];
  if (call.given_up) return;
  for (std::size_t id = 0; id < call.queues.size(); ++id) {
    const std::size_t waiting = call.queues[id].frames.size();
    if (longest != nullptr) (*longest)[id] = std::max((*longest)[id], waiting);
    if (waiting > plan_.nodes[id].queue_max)
      violated("C27: call " + std::to_string(index) + ", " + std::to_string(waiting) +
               " wait for node '" + plan_.nodes[id].name + "', of " +
               std::to_string(plan_.nodes[id].queue_max) + " that may");
  }
}

void Oracle::check_drops(const EndCall& end, const CallFacts& call) {
  constexpr std::size_t told_max = 50;  // warnings of a call: more are only counted
  if (call.given_up || end.failure || end.warnings.size() > told_max) return;
  for (std::size_t id = 0; id < call.queues.size(); ++id) {
    const std::string& name = plan_.nodes[id].name;
    const Queue& queue = call.queues[id];
    if (!queue.frames.empty())
      violated("C27: " + std::to_string(queue.frames.size()) + " frames for node '" + name +
               "' neither ran nor were dropped, and their call has ended");
    std::uint64_t told = 0;
    for (const std::string& warning : end.warnings) {
      if (!warning.starts_with(name + ": inputs that waited were dropped")) continue;
      const std::size_t times = warning.rfind(") (");
      told += times == std::string::npos ? 1 : std::stoull(warning.substr(times + 3));
    }
    if (told != queue.dropped)
      violated("C27: node '" + name + "' dropped " + std::to_string(queue.dropped) +
               ", and the caller hears of " + std::to_string(told));
  }
}

}  // namespace sluice::sim
