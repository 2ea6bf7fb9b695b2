#include "graph/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

Engine::Engine(const Plan& plan, NodeId self, Pools& pools)
    : plan_(plan), node_(plan.nodes[self]), pools_(pools), splitter_(plan, self, pools) {
  for (std::uint16_t i = 0; i < node_.held; ++i)
    trigger_shares_.push_back(node_.flows[i].collector);
  if (node_.order != none && !plan_.collectors[node_.order].loops)
    trigger_shares_.push_back(node_.order);
}

void Engine::receive(Message& message, Effects& effects) {
  if (message.kind == Message::Kind::call_ended) return receive_call_ended(message);
  if (is_given_up(message.call)) return;
  switch (message.kind) {
    case Message::Kind::frame:
      return receive_frame(message, effects);
    case Message::Kind::settled:
      return receive_settled(message, effects);
    case Message::Kind::cancel:
      return receive_cancel(message, effects);
    case Message::Kind::abort:
      return receive_abort(message, effects);
    case Message::Kind::call_ended:
    case Message::Kind::aborted:
    case Message::Kind::credit:
      break;
  }
  SLUICE_CHECK(false, "credit goes to the entry");
}

void Engine::receive_frame(Message& message, Effects& effects) {
  const Edge& edge = plan_.edges[message.target];
  const PlanGroup& group = node_.groups[edge.group];
  if (group.collector == none) {
    const std::uint32_t index = new_record(message.call, message.session, edge.group);
    Record& record = records_[index];
    record.shares.take(message.shares);
    record.credit = message.credit;
    continue_path(record, message.frame->path);
    record.arrivals.push_back({edge.id, std::move(message.frame), Share{}});
    return ready(index, effects);
  }
  const Share& share = message.shares[0];
  if (!group.counts.empty()) {
    CallRecord& record = call_record(message.call, message.session);
    keep_credit(record.credit, message, effects);
    record.count.open(group, outermost(share).scope);
    record.line.put(share, record.count.hold({edge.id, std::move(message.frame), share}));
    return advance_count(message.call, group, effects);
  }
  Bucket& bucket = bucket_of(share);
  if (!bucket.scope()) bucket.open(outermost(share).scope, message.session);
  keep_credit(bucket.credit(), message, effects);
  bucket.add(edge.id, std::move(message.frame), share);
  if (bucket.complete()) close_bucket(bucket, effects);
}

void Engine::receive_settled(Message& message, Effects& effects) {
  const Collector& collector = plan_.collectors[message.target];
  const Share& share = message.shares[0];
  if (collector.kind == CollectorKind::join) {
    Bucket& bucket = bucket_of(share);
    if (!bucket.scope()) bucket.open(outermost(share).scope, message.session);
    keep_credit(bucket.credit(), message, effects);
    bucket.add(0, FrameRef(), share);
    if (bucket.complete()) close_bucket(bucket, effects);
    return;
  }
  CallRecord& record = call_record(message.call, message.session);
  keep_credit(record.credit, message, effects);
  if (collector.kind == CollectorKind::count) {
    const PlanGroup& group = node_.groups[collector.group];
    record.count.open(group, outermost(share).scope);
    record.line.settle(share);
    return advance_count(message.call, group, effects);
  }
  record.line.settle(share);
  pump(message.call, effects);
}

void Engine::receive_cancel(Message& message, Effects& effects) {
  cancelled_[message.call] = true;
  for (std::uint32_t i = 0; i < records_.size(); ++i)
    if (records_[i].state == State::running && records_[i].call == message.call)
      effects.cancels.push_back({node_.id, {i, records_[i].generation}});
  splitter_.send_credit(message.credit, message.call, message.session, effects);
}

void Engine::receive_call_ended(const Message& message) {
  floor_ = std::max(floor_, message.floor);
  if (!aborted_.empty()) {
    std::vector<CallId> over;
    aborted_.for_each([&](CallId call, std::size_t) {
      if (call < floor_) over.push_back(call);
    });
    for (const CallId call : over) aborted_.erase(call);
  }
  cancelled_.erase(message.call);
  if (!calls_.contains(message.call)) return;
  SLUICE_CHECK(!record_of(message.call).credit, "a call ended before its credit was home");
  recycle_call(message.call);
}

void Engine::CallRecord::clear() {
  line.clear();
  count.clear();
  credit = Credit();
  session = released = 0;
  running = false;
}

void Engine::recycle_call(CallId call) {
  std::unique_ptr<CallRecord> record = std::move(*calls_.find(call));
  calls_.erase(call);
  record->clear();
  free_calls_.push_back(std::move(record));
}

void Engine::forget(const std::vector<CallId>& given_up) {
  for (const CallId call : given_up) aborted_[call] = 0;
}

void Engine::receive_abort(Message& message, Effects& effects) {
  drop_call(message.call);
  std::size_t running = 0;
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    Record& record = records_[i];
    if (record.state == State::free || record.call != message.call) continue;
    if (record.state == State::waiting) {
      free_record(i);
      continue;
    }
    ++running;
    splitter_.abandon(record.holding);
    effects.cancels.push_back({node_.id, {i, record.generation}});
  }
  aborted_[message.call] = running;
  if (running == 0) say_aborted(message.call, message.session, effects);
}

void Engine::say_aborted(CallId call, std::uint64_t session, Effects& effects) {
  Message* message = pools_.new_message(Message::Kind::aborted, entry_node, call, session);
  message->target = node_.id;
  effects.messages.push_back(message);
}

/// Buckets, queues and counts of a call that is given up.
void Engine::drop_call(CallId call) {
  cancelled_.erase(call);
  std::vector<std::uint64_t> scopes;
  buckets_.for_each([&](std::uint64_t id, const std::unique_ptr<Bucket>& bucket) {
    if (bucket->scope()->call == call) scopes.push_back(id);
  });
  for (const std::uint64_t id : scopes) recycle_bucket(id);
  if (calls_.contains(call)) recycle_call(call);
}

Engine::CallRecord& Engine::call_record(CallId call, std::uint64_t session) {
  std::unique_ptr<CallRecord>& record = calls_[call];
  if (record) return *record;
  if (free_calls_.empty()) {
    record = std::make_unique<CallRecord>();
  } else {
    record = std::move(free_calls_.back());
    free_calls_.pop_back();
  }
  record->session = session;
  return *record;
}

std::uint32_t Engine::new_record(CallId call, std::uint64_t session, std::uint16_t group) {
  if (free_records_.empty()) {
    free_records_.push_back(static_cast<std::uint32_t>(records_.size()));
    records_.emplace_back();
  }
  const std::uint32_t index = free_records_.back();
  free_records_.pop_back();
  Record& record = records_[index];
  record.state = State::waiting;
  record.call = call;
  record.session = session;
  record.group = group;
  return index;
}

void Engine::continue_path(Record& record, const std::vector<std::uint32_t>& path) const {
  if (!plan_.paths) return;
  record.path = path;
  record.path.push_back(record.group);
}

void Engine::free_record(std::uint32_t index) {
  Record& record = records_[index];
  record.state = State::free;
  ++record.generation;
  record.shares.clear();
  record.arrivals.clear();
  record.inputs.clear();
  record.iterations.clear();
  record.path.clear();
  record.deadline = Instant::max();
  free_records_.push_back(index);
}

void Engine::ready(std::uint32_t index, Effects& effects) {
  Record& record = records_[index];
  if (node_.order == none) {
    start(index, 0, effects);
    return;
  }
  CallRecord& call = call_record(record.call, record.session);
  call.line.put(record.shares[node_.order_position], index);
  if (!plan_.collectors[node_.order].loops) record.shares.resize(node_.order_position);
  pump(record.call, effects);
}

void Engine::pump(CallId id, Effects& effects) {
  CallRecord& call = record_of(id);
  const bool loops = plan_.collectors[node_.order].loops;
  while (!call.running) {
    const std::optional<Line::Item> item = call.line.pop(loops);
    if (!item.has_value()) break;
    if (records_[*item].credit.absorb(call.credit)) call.credit = Credit();
    call.running = start(*item, call.released++, effects);
  }
  // While more is to come, the credit waits for it: one message home instead of one each.
  if (!call.running && call.line.empty() && !call.line.open()) flush_credit(id, call, effects);
}

void Engine::flush_credit(CallId id, CallRecord& record, Effects& effects) {
  if (record.credit)
    splitter_.send_credit(std::exchange(record.credit, Credit()), id, record.session, effects);
}

void Engine::keep_credit(Credit& held, const Message& message, Effects& effects) {
  if (!held.absorb(message.credit))
    splitter_.send_credit(message.credit, message.call, message.session, effects);
}

std::unique_ptr<Failure> Engine::merge_iterations(Record& record) const {
  record.iterations.assign(plan_.loop_nodes, 0);
  if (plan_.loop_nodes == 0) return nullptr;
  for (const Arrival& arrival : record.arrivals)
    for (std::size_t i = 0; i < arrival.frame->iterations.size(); ++i)
      record.iterations[i] = std::max(record.iterations[i], arrival.frame->iterations[i]);
  if (node_.loop_index == none) return nullptr;
  const std::int64_t turn = record.iterations[node_.loop_index];
  if (turn < std::min<std::int64_t>(plan_.limits.loop_iterations, 0xffff)) return nullptr;
  return std::make_unique<Failure>(
      Failure{node_.id,
              {ErrorCode::exhausted, "node '" + node_.name + "' reached the limit of " +
                                         std::to_string(plan_.limits.loop_iterations) +
                                         " loop iterations (limits: loop_iterations)"},
              FailureKind::loop_limit});
}

void Engine::fill_inputs(Record& record, const PlanGroup& group) {
  if (!record.inputs.empty() || !group.counts.empty()) return;
  for (std::uint16_t field = 0; field < group.fields.size(); ++field)
    for (const Arrival& arrival : record.arrivals)
      for (const FieldMap& map : plan_.edges[arrival.edge].fields)
        if (map.to == field && (arrival.frame->mask >> map.from & 1U) != 0)
          record.inputs.push_back({field, arrival.frame->values[map.from]});
}

bool Engine::start(std::uint32_t index, std::uint64_t sequence, Effects& effects) {
  Record& record = records_[index];
  splitter_.begin(record.holding, record.shares, record.credit, record.call, record.session,
                  sequence);
  record.state = State::running;
  std::unique_ptr<Failure> failure = merge_iterations(record);
  if (failure || is_cancelled(record.call) || is_stale(record, effects)) {
    close(index, std::move(failure), effects);
    return false;
  }
  fill_inputs(record, node_.groups[record.group]);
  record.deadline = node_.deadline == Instant{} ? Instant::max() : now_ + node_.deadline;
  const std::uint32_t replica = node_.balance == Balance::session
                                    ? static_cast<std::uint32_t>(record.session % node_.replicas)
                                    : (node_.replicas == 1 ? 0 : next_replica_++ % node_.replicas);
  effects.starts.push_back({node_.id,
                            {index, record.generation},
                            record.group,
                            replica,
                            node_.loop_index == none ? 0U : record.iterations[node_.loop_index],
                            record.call,
                            record.session,
                            record.inputs});
  return true;
}

void Engine::close(std::uint32_t index, std::unique_ptr<Failure> failure, Effects& effects) {
  // What the workflow tolerates is a role's failure; a limit is a limit.
  if (node_.skip_errors && failure &&
      (failure->kind == FailureKind::role_failed || failure->kind == FailureKind::deadline))
    failure.reset();
  splitter_.end(records_[index].holding, std::move(failure), effects);
  free_record(index);
}

bool Engine::is_stale(Record& record, Effects& effects) {
  record.born = record.arrivals.empty() ? now_ : record.arrivals.front().frame->born;
  for (const Arrival& arrival : record.arrivals)
    record.born = std::min(record.born, arrival.frame->born);
  if (node_.max_age == Instant{} || now_ - record.born <= node_.max_age) return false;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(node_.max_age);
  Shares nothing;
  record.holding.credit.refine();
  splitter_.settle(nothing, {}, record.holding.credit.take(record.holding.credit.amount / 2),
                   record.call, record.session,
                   {{node_.name + ": inputs older than max_age (" + std::to_string(limit.count()) +
                     " ms) were dropped"},
                    nullptr},
                   effects);
  return true;
}

void Engine::tick(Effects& effects) {
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    Record& record = records_[i];
    if (record.state != State::running || record.deadline > now_) continue;
    const ActivationId activation{i, record.generation};
    effects.cancels.push_back({node_.id, activation});
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(node_.deadline);
    ended(activation,
          std::make_unique<Failure>(Failure{
              node_.id,
              {ErrorCode::deadline, "node '" + node_.name + "' ran longer than its " +
                                        "deadline of " + std::to_string(limit.count()) + " ms"},
              FailureKind::deadline}),
          effects);
  }
}

Instant Engine::next_deadline() const {
  Instant next = Instant::max();
  if (node_.deadline == Instant{}) return next;
  for (const Record& record : records_)
    if (record.state == State::running) next = std::min(next, record.deadline);
  return next;
}

bool Engine::knows(ActivationId activation) const {
  return activation.index < records_.size() &&
         records_[activation.index].generation == activation.generation &&
         records_[activation.index].state == State::running;
}

void Engine::yielded(ActivationId activation, Frame* frame, bool last, Effects& effects) {
  const FrameRef shared(frame);
  if (!knows(activation)) return;
  Record& record = records_[activation.index];
  frame->born = record.born;
  if (is_given_up(record.call)) return last ? ended(activation, nullptr, effects) : void();
  if (plan_.loop_nodes != 0) {
    frame->iterations = record.iterations;
    if (node_.loop_index != none) ++frame->iterations[node_.loop_index];
  }
  if (plan_.paths) {
    frame->path = record.path;
    frame->path.push_back(static_cast<std::uint32_t>(record.holding.yields));
  }
  splitter_.yield(record.holding, shared, last, effects);
  if (last) ended(activation, nullptr, effects);
}

void Engine::ended(ActivationId activation, std::unique_ptr<Failure> failure, Effects& effects) {
  if (!knows(activation)) return;
  const CallId call = records_[activation.index].call;
  if (is_given_up(call)) {
    const std::uint64_t session = records_[activation.index].session;
    free_record(activation.index);
    if (std::size_t* left = aborted_.find(call); left != nullptr && --*left == 0)
      say_aborted(call, session, effects);
    return;
  }
  close(activation.index, std::move(failure), effects);
  if (node_.order == none) return;
  record_of(call).running = false;
  pump(call, effects);
}

Bucket& Engine::bucket_of(const Share& share) {
  std::unique_ptr<Bucket>& bucket = buckets_[outermost(share).scope->id];
  if (bucket) return *bucket;
  if (free_buckets_.empty()) {
    bucket = std::make_unique<Bucket>();
  } else {
    bucket = std::move(free_buckets_.back());
    free_buckets_.pop_back();
  }
  return *bucket;
}

void Engine::recycle_bucket(std::uint64_t scope) {
  std::unique_ptr<Bucket> bucket = std::move(*buckets_.find(scope));
  buckets_.erase(scope);
  bucket->clear();
  free_buckets_.push_back(std::move(bucket));
}

void Engine::close_bucket(Bucket& bucket, Effects& effects) {
  const ScopeRef scope = bucket.scope();
  const Collector& collector = plan_.collectors[scope->collector];
  if (!bucket.can_fire(plan_, node_.groups[collector.group])) {
    splitter_.settle(scope->outer, collector.outer, bucket.credit(), scope->call, bucket.session(),
                     {}, effects);
    return recycle_bucket(scope->id);
  }
  const std::uint32_t index = new_record(scope->call, bucket.session(), collector.group);
  Record& record = records_[index];
  record.shares.take(scope->outer);
  record.credit = bucket.credit();
  continue_path(record, scope->path);
  bucket.take(record.arrivals);
  recycle_bucket(scope->id);
  ready(index, effects);
}

Notice Engine::count_notice(const CallRecord& call, const PlanGroup& group) const {
  Notice notice{call.count.warnings(node_, group), nullptr};
  if (auto broken = call.count.broken(node_, group, plan_))
    notice.failure = std::make_unique<Failure>(Failure{
        node_.id, {ErrorCode::invalid_argument, std::move(*broken)}, FailureKind::count_source});
  return notice;
}

void Engine::advance_count(CallId id, const PlanGroup& group, Effects& effects) {
  CallRecord& call = record_of(id);
  while (const std::optional<Line::Item> item = call.line.pop(false))
    call.count.take(*item, group, plan_);
  const bool ended = call.line.complete(0);
  if (!call.count.fired() && call.count.ready(group, ended)) fire_count(id, group, ended, effects);
  if (ended) {
    Notice notice = count_notice(call, group);
    const std::vector<CollectorId>& outer = plan_.collectors[group.collector].outer;
    Shares nothing;
    const bool dead = !call.count.fired();
    if (dead || !notice.empty())
      splitter_.settle(dead ? call.count.scope()->outer : nothing, outer,
                       std::exchange(call.credit, Credit()), id, call.session, std::move(notice),
                       effects);
    flush_credit(id, call, effects);
  }
}

void Engine::fire_count(CallId id, const PlanGroup& group, bool ended, Effects& effects) {
  CallRecord& call = record_of(id);
  const std::uint32_t index = new_record(id, call.session, 0);
  Record& record = records_[index];
  record.shares.take(call.count.scope()->outer);
  if (plan_.paths) record.path = {0, 0};
  call.count.fire(group, plan_, record.arrivals, record.inputs);
  // The firing takes the credit, but for what says afterwards what was left over.
  call.credit.refine();
  const bool silent = ended && count_notice(call, group).empty();
  record.credit =
      call.credit.take(silent ? call.credit.amount : call.credit.amount - call.credit.amount / 4);
  start(index, 0, effects);
}

EngineCounts Engine::counts() const {
  return {records_.size() - free_records_.size(), buckets_.size(), calls_.size()};
}

}  // namespace sluice
