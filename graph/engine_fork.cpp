// How one set of inputs runs on each replica of a role (`balance: broadcast`).
//
// It is as if a node in front had yielded the set once for each replica: what is held (shares,
// credit) is divided in the order of the replicas, so joins, counts, orders and the call's end know
// nothing of it. All of them begin in one step.
#include "graph/engine.h"

namespace sluice {

void Engine::fork(Record& record, Record& next, std::uint32_t left) {
  next.state = State::running;
  next.inputs = record.inputs;
  next.iterations = record.iterations;
  next.born = record.born;
  next.yielded = 0;
  if (plan_.paths) {
    next.path = record.path;
    next.path.insert(next.path.end(), {node_.fan_out() - left, 0});
  }
  splitter_.fork(record.holding, next.holding, left);
}

}  // namespace sluice
