#include "graph/frame.h"

namespace sluice {

std::string_view to_string(FailureKind kind) {
  switch (kind) {
    case FailureKind::role_failed:
      return "role_failed";
    case FailureKind::loop_limit:
      return "loop_limit";
    case FailureKind::count_source:
      return "count_source";
    case FailureKind::frame_limit:
      return "frame_limit";
    case FailureKind::deadline:
      return "deadline";
    case FailureKind::cancelled:
      return "cancelled";
    case FailureKind::node_lost:
      return "node_lost";
    case FailureKind::refused:
      return "refused";
  }
  return "";
}

void Frame::dispose(const Frame* frame) {
  auto* mine = const_cast<Frame*>(frame);
  for (PayloadRef& value : mine->values) value = PayloadRef();
  mine->iterations.clear();
  mine->path.clear();
  mine->pools->frames.give(mine);
}

void Scope::dispose(const Scope* scope) {
  auto* mine = const_cast<Scope*>(scope);
  if (mine->outer.empty() && !mine->parent.scope) {
    mine->path.clear();
    return mine->pools->scopes.give(mine);
  }
  // One by one, not by recursion: a share may have been refined any number of times.
  Pools& pools = *mine->pools;
  pools.unwinding.push_back(mine);
  if (pools.unwinding.size() > 1) return;
  for (std::size_t i = 0; i < pools.unwinding.size(); ++i) {
    Scope* const next = pools.unwinding[i];
    next->outer.clear();
    next->path.clear();
    next->parent = Share{};
    pools.scopes.give(next);
  }
  pools.unwinding.clear();
}

}  // namespace sluice
