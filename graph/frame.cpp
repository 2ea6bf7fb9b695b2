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
  mine->outer.clear();
  mine->path.clear();
  mine->parent = Share{};
  mine->pools->scopes.give(mine);
}

}  // namespace sluice
