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
  mine->values.clear();
  mine->iterations.clear();
  mine->path.clear();
  mine->home->frames.give(mine);
}

void Scope::dispose(const Scope* scope) {
  auto* mine = const_cast<Scope*>(scope);
  mine->outer.clear();
  mine->path.clear();
  mine->parent = Share{};
  mine->home->scopes.give(mine);
}

Frame* Pools::new_frame(NodeId from, std::size_t outputs) {
  Frame* frame = frames.take();
  frame->home = this;
  frame->from = from;
  frame->mask = 0;
  frame->values.resize(outputs);
  return frame;
}

Scope* Pools::new_scope(CollectorId collector, CallId call) {
  Scope* scope = scopes.take();
  scope->home = this;
  scope->id = ++scopes_made;
  scope->collector = collector;
  scope->call = call;
  scope->sequence = 0;
  return scope;
}

Message* Pools::new_message(Message::Kind kind, NodeId to, CallId call, std::uint64_t session) {
  Message* message = messages.take();
  message->kind = kind;
  message->to = to;
  message->call = call;
  message->session = session;
  message->credit = Credit();
  message->floor = 0;
  return message;
}

void Pools::give(Message* message) {
  message->frame = FrameRef();
  message->shares.clear();
  message->failure.reset();
  message->warnings.clear();
  messages.give(message);
}

}  // namespace sluice
