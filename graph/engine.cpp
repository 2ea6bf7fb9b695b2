#include "graph/engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/count_text.h"

namespace sluice {

Engine::Engine(const Plan& plan, NodeId self, Pools& pools)
    : plan_(plan),
      node_(plan.nodes[self]),
      pools_(pools),
      splitter_(plan, self, pools),
      buckets_(pools.mix),
      calls_(pools.mix),
      cancelled_(pools.mix),
      aborted_(pools.mix) {
  joins_ = has_join(plan.nodes[self]);
}

Engine::CallRecord& Engine::call_record(const CallId& call, std::uint64_t session) {
  CallRecord*& record = calls_[call];
  if (record == nullptr) {
    record =
        free_calls_.take([&](CallRecord& made) { made.queue.use(pools_.mix, pools_.waiting_max); });
    record->session = session;
  }
  return *record;
}

void Engine::receive(Message& message, Effects& effects) {
  if (message.kind == Message::Kind::call_ended) return receive_call_ended(message, effects);
  if (is_given_up(message.call)) return;
  if (effects.from_wire && is_full(message))
    return effects.refuse(message.call, node_.id, "too much waits here already");
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
  effects.refuse(message.call, node_.id, "credit goes to the entry");
}

bool Engine::is_full(const Message& message) const {
  const std::size_t most = pools_.waiting_max;
  switch (message.kind) {
    case Message::Kind::frame:
      if (free_records_.in_use() >= most || pools_.frames.in_use() > most) return true;
      [[fallthrough]];
    case Message::Kind::settled:
      return buckets_.size() >= most || (calls_.size() >= most && !calls_.contains(message.call));
    case Message::Kind::cancel:
      return cancelled_.size() >= most && !cancelled_.contains(message.call);
    case Message::Kind::abort:
      return aborted_.size() >= most && !aborted_.contains(message.call);
    case Message::Kind::credit:
    case Message::Kind::aborted:
    case Message::Kind::call_ended:
      break;
  }
  return false;
}

inline Bucket* Engine::bucket_of(const Share& share, const Message& message, CollectorId collector,
                                 Effects& effects) {
  const ScopeRef& scope = outermost(share).scope;
  Bucket*& bucket = buckets_[{scope->id, message.call}];
  if (bucket != nullptr) {
    // Within one process a scope's name is never used twice.
    if (!effects.from_wire || bucket->scope()->collector == collector) return bucket;
    effects.refuse(message.call, node_.id, "a scope of another join");
    return nullptr;
  }
  bucket = free_buckets_.take([&](Bucket& made) { made.use(pools_.mix); });
  bucket->open(scope, message.session);
  return bucket;
}

inline void Engine::receive_frame(Message& message, Effects& effects) {
  const Edge& edge = plan_.edges[message.target];
  const PlanGroup& group = node_.groups[edge.group];
  if (group.collector == none) {
    Record& record = new_record(message.call, message.session, edge.group);
    record.credit = message.credit;
    continue_path(record, message.frame->path);
    Arrival& only = record.arrivals.emplace_back();
    only.edge = edge.id;
    only.frame = std::move(message.frame);
    return ready(record, message.shares, effects);
  }
  const Share& share = message.shares[0];
  if (!group.counts.empty()) {
    CallRecord& record = call_record(message.call, message.session);
    keep_credit(record.credit, message, effects);
    record.count.open(group);
    record.count.take_deposit(share);
    Arrival arrival{edge.id, std::move(message.frame), share};
    if (record.queue.pass(share))
      record.count.take(std::move(arrival), group, plan_);
    else if (!record.queue.put(share, record.count.hold(std::move(arrival))))
      return effects.refuse(message.call, node_.id, record.queue.problem());
    return advance_count(message.call, record, group, effects);
  }
  Bucket* const found = bucket_of(share, message, group.collector, effects);
  if (found == nullptr) return;
  Bucket& bucket = *found;
  keep_credit(bucket.credit(), message, effects);
  if (!bucket.add(edge.id, std::move(message.frame), share))
    return effects.refuse(message.call, node_.id, "a share came back twice");
  if (bucket.complete()) close_bucket(bucket, effects);
}

void Engine::receive_settled(Message& message, Effects& effects) {
  const Collector& collector = plan_.collectors[message.target];
  const Share& share = message.shares[0];
  if (collector.kind == CollectorKind::join) {
    Bucket* const found = bucket_of(share, message, collector.id, effects);
    if (found == nullptr) return;
    Bucket& bucket = *found;
    keep_credit(bucket.credit(), message, effects);
    if (!bucket.add(0, FrameRef(), share))
      return effects.refuse(message.call, node_.id, "a share came back twice");
    if (bucket.complete()) close_bucket(bucket, effects);
    return;
  }
  CallRecord& record = call_record(message.call, message.session);
  keep_credit(record.credit, message, effects);
  if (collector.kind == CollectorKind::count) {
    const PlanGroup& group = node_.groups[collector.group];
    record.count.open(group);
    record.count.take_deposit(share);
    if (!record.queue.settle(share))
      return effects.refuse(message.call, node_.id, record.queue.problem());
    return advance_count(message.call, record, group, effects);
  }
  if (!record.queue.settle(share))
    return effects.refuse(message.call, node_.id, record.queue.problem());
  pump(message.call, record, effects);
}

void Engine::CallRecord::clear() {
  queue.clear();
  waiting.clear();
  count.clear();
  credit = Credit();
  session = released = 0;
  running = 0;
  came = 0;
  news.clear();
}

void Engine::recycle_call(const CallId& call) {
  CallRecord* record = *calls_.find(call);
  calls_.erase(call);
  if (record == counted_) counted_ = nullptr;
  record->clear();
  free_calls_.give(record);
}

inline Engine::Record& Engine::new_record(const CallId& call, std::uint64_t session,
                                          std::uint16_t group) {
  Record& record = *free_records_.take();
  if (record.index == unnumbered) {
    record.index = static_cast<std::uint32_t>(records_.size());
    records_.push_back(&record);
    if (!by_call_.empty() && records_.size() > by_call_.size()) index_by_call();
  }
  record.state = State::waiting;
  record.call = call;
  record.session = session;
  record.group = group;
  if (!by_call_.empty()) add_to_call(record);
  return record;
}

const std::vector<Engine::Record*>& Engine::records_of(const CallId& call) {
  constexpr std::size_t scanned_max = 64;
  found_.clear();
  if (by_call_.empty() && records_.size() > scanned_max) index_by_call();
  if (by_call_.empty()) {
    for (Record* record : records_)
      if (record->state != State::free && record->call == call) found_.push_back(record);
    return found_;
  }
  for (Record* record = chain_of(call); record != nullptr; record = record->next_of_call)
    if (record->call == call) found_.push_back(record);
  std::ranges::sort(found_, {}, &Record::index);
  return found_;
}

void Engine::index_by_call() {
  by_call_.assign(std::bit_ceil(records_.size() * 2), nullptr);
  for (Record* record : records_)
    if (record->state != State::free) add_to_call(*record);
}

void Engine::add_to_call(Record& record) {
  Record*& first = chain_of(record.call);
  record.next_of_call = first;
  record.of_call = &first;
  if (first != nullptr) first->of_call = &record.next_of_call;
  first = &record;
}

void Engine::remove_from_call(Record& record) {
  *record.of_call = record.next_of_call;
  if (record.next_of_call != nullptr) record.next_of_call->of_call = record.of_call;
}

inline void Engine::continue_path(Record& record, const std::vector<std::uint32_t>& path) const {
  if (!plan_.paths) return;
  record.path = path;
  record.path.push_back(record.group);
}

void Engine::add_due(Record& record) {
  record.deadline = now_ + node_.deadline;
  record.earlier = last_due_;
  (last_due_ == nullptr ? first_due_ : last_due_->later) = &record;
  last_due_ = &record;
}

void Engine::remove_due(Record& record) {
  (record.earlier == nullptr ? first_due_ : record.earlier->later) = record.later;
  (record.later == nullptr ? last_due_ : record.later->earlier) = record.earlier;
  record.earlier = record.later = nullptr;
  record.deadline = Instant::max();
}

void Engine::free_record(Record& record) {
  if (record.deadline != Instant::max()) remove_due(record);
  if (!by_call_.empty()) remove_from_call(record);
  record.state = State::free;
  ++record.generation;
  record.shares.clear();
  record.arrivals.clear();
  record.inputs.clear();
  record.iterations.clear();
  record.path.clear();
  free_records_.give(&record);
}

void Engine::ready(Record& record, Shares& shares, Effects& effects) {
  if (node_.frames_counted && is_one_too_many(record)) tell_too_many(record, effects);
  if (node_.order == none) {
    if (node_.queue_max != 0)
      return line_up(call_record(record.call, record.session), record, shares, effects);
    start(record, shares, 0, effects);
    return;
  }
  CallRecord& call = call_record(record.call, record.session);
  const CallId id = record.call;
  const bool loops = plan_.collectors[node_.order].loops;
  const Share& place = shares[node_.order_position];
  if (!loops && call.running == 0 && call.queue.pass(place)) {
    shares.resize(node_.order_position);
    release(call, record, shares, effects);
  } else {
    if (!call.queue.put(place, record.index))
      return effects.refuse(id, node_.id, call.queue.problem());
    if (node_.queue_max != 0) call.waiting.push_back({&record, place});
    record.shares.take(shares);
    if (!loops) record.shares.resize(node_.order_position);
  }
  pump(id, call, effects);
  if (call.waiting.size() > node_.queue_max) drop_oldest(call, effects);
}

void Engine::release(CallRecord& call, Record& record, Shares& shares, Effects& effects) {
  if (record.credit.absorb(call.credit)) call.credit = Credit();
  call.running = start(record, shares, call.released++, effects);
}

void Engine::pump(const CallId& id, CallRecord& call, Effects& effects) {
  const bool loops = plan_.collectors[node_.order].loops;
  while (call.running == 0) {
    const OrderQueue::Item item = call.queue.pop(loops);
    if (item == OrderQueue::no_item) {
      if (call.queue.broken()) effects.refuse(id, node_.id, "a position came twice");
      break;
    }
    if (node_.queue_max != 0) leave_line(call, *records_[item]);
    release(call, *records_[item], records_[item]->shares, effects);
  }
  // While more is to come, the credit waits for it: one message back instead of one each.
  if (call.running == 0 && call.queue.empty() && !call.queue.open())
    flush_credit(id, call, effects);
}

void Engine::flush_credit(const CallId& id, CallRecord& record, Effects& effects) {
  if (record.credit)
    splitter_.send_credit(std::exchange(record.credit, Credit()), id, record.session, effects);
}

inline void Engine::keep_credit(Credit& held, const Message& message, Effects& effects) {
  if (!held.absorb(message.credit))
    splitter_.send_credit(message.credit, message.call, message.session, effects);
}

inline void Engine::fill_inputs(Record& record, const PlanGroup& group) {
  if (!record.inputs.empty() || !group.counts.empty()) return;
  const auto add = [&](const Arrival& arrival, const FieldMap& map) {
    if ((arrival.frame->mask >> map.from & 1U) != 0)
      record.inputs.push_back({map.to, take_value(arrival.frame, map)});
  };
  if (record.arrivals.size() == 1) {
    const Arrival& only = record.arrivals.front();
    for (const FieldMap& map : plan_.edges[only.edge].fields) add(only, map);
    return;
  }
  for (std::uint16_t field = 0; field < group.fields.size(); ++field)
    for (const Arrival& arrival : record.arrivals)
      for (const FieldMap& map : plan_.edges[arrival.edge].fields)
        if (map.to == field) add(arrival, map);
}

std::uint32_t Engine::start(Record& record, Shares& shares, std::uint64_t sequence,
                            Effects& effects) {
  splitter_.begin(record.holding, shares, record.credit, record.call, record.session, sequence);
  record.state = State::running;
  record.yielded = 0;
  std::unique_ptr<Failure> failure;
  if (plan_.loop_nodes != 0) failure = merge_iterations(record);
  record.born = record.arrivals.empty() ? now_ : record.arrivals.front().frame->born;
  for (const Arrival& arrival : record.arrivals)
    record.born = std::min(record.born, arrival.frame->born);
  if (failure || is_cancelled(record.call) ||
      (node_.max_age != Instant{} && is_stale(record, effects))) {
    if (node_.queue_max != 0) note_not_started(record, false, effects);
    close(record, std::move(failure), effects);
    return 0;
  }
  if (joins_ && last_run_ != record.call) note_run(record, effects);
  const PlanGroup& group = node_.groups[record.group];
  fill_inputs(record, group);
  if (group.single != 0) failure = check_frames(record, group);
  if (failure) {
    if (node_.queue_max != 0) note_not_started(record, false, effects);
    close(record, std::move(failure), effects);
    return 0;
  }
  record.arrivals.clear();
  const std::uint32_t fan_out = node_.fan_out();
  if (fan_out > 1) [[unlikely]] {
    for (std::uint32_t replica = 0; replica + 1 < fan_out; ++replica) {
      Record& next = new_record(record.call, record.session, record.group);
      fork(record, next, fan_out - replica);
      run(next, replica, effects);
    }
    if (plan_.paths) record.path.insert(record.path.end(), {fan_out - 1, 0});
    run(record, fan_out - 1, effects);
    return fan_out;
  }
  std::uint32_t replica = 0;
  if (node_.replicas > 1)
    replica = static_cast<std::uint32_t>(
        (node_.balance == Balance::session ? record.session : next_replica_++) % node_.replicas);
  run(record, replica, effects);
  return 1;
}

inline void Engine::run(Record& record, std::uint32_t replica, Effects& effects) {
  if (node_.deadline != Instant{}) add_due(record);
  StartActivation& start = effects.starts.emplace_back();
  start.node = node_.id;
  start.activation = {record.index, record.generation};
  start.group = record.group;
  start.replica = replica;
  start.iteration = node_.loop_index == none ? 0U : record.iterations[node_.loop_index];
  start.call = record.call;
  start.session = record.session;
  start.inputs = record.inputs;
}

inline void Engine::close(Record& record, std::unique_ptr<Failure> failure, Effects& effects) {
  // What the workflow tolerates is a role's failure; a limit is a limit.
  if (failure && node_.skip_errors &&
      (failure->kind == FailureKind::role_failed || failure->kind == FailureKind::deadline)) {
    warn_stopped(record, node_.name + " failed and was skipped: " + failure->error.message,
                 effects);
    failure.reset();
  }
  if (record.holding.credit) splitter_.end(record.holding, std::move(failure), effects);
  free_record(record);
}

bool Engine::is_stale(Record& record, Effects& effects) {
  if (now_ - record.born <= node_.max_age) return false;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(node_.max_age);
  warn_stopped(record,
               node_.name + ": inputs older than max_age (" + std::to_string(limit.count()) +
                   " ms) were dropped",
               effects);
  return true;
}

void Engine::tick(Effects& effects) {
  while (first_due_ != nullptr && first_due_->deadline <= now_) {
    Record& record = *first_due_;
    effects.cancels.push_back({node_.id, {record.index, record.generation}, true});
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(node_.deadline);
    finish(record,
           std::make_unique<Failure>(Failure{
               node_.id,
               {ErrorCode::deadline, "node '" + node_.name + "' was not done within its " +
                                         "deadline of " + std::to_string(limit.count()) + " ms"},
               FailureKind::deadline}),
           effects);
  }
}

void Engine::yielded(ActivationId activation, Frame* frame, bool last, Effects& effects) {
  const FrameRef shared(frame);
  Record* record = running(activation);
  if (record == nullptr) return;
  if (!is_given_up(record->call)) {
    frame->born = record->born;
    if (plan_.loop_nodes != 0) {
      frame->iterations = record->iterations;
      if (node_.loop_index != none) ++frame->iterations[node_.loop_index];
    }
    if (plan_.paths) {
      frame->path = record->path;
      frame->path.push_back(static_cast<std::uint32_t>(record->holding.yields));
    }
    record->yielded |= shared->mask;
    // Before the yield, which may take the last credit along.
    if (last && (node_.read & ~record->yielded) != 0) [[unlikely]]
      note_silent(*record, effects);
    splitter_.yield(record->holding, shared, last, effects);
  }
  if (last) finish(*record, nullptr, effects);
}

void Engine::ended(ActivationId activation, std::unique_ptr<Failure> failure, Effects& effects) {
  Record* record = running(activation);
  if (record == nullptr) return;
  if (!failure && (node_.read & ~record->yielded) != 0 && !is_given_up(record->call)) [[unlikely]]
    note_silent(*record, effects);
  finish(*record, std::move(failure), effects);
}

void Engine::finish(Record& record, std::unique_ptr<Failure> failure, Effects& effects) {
  const CallId call = record.call;
  if (is_given_up(call)) {
    const std::uint64_t session = record.session;
    // A home that is wrong may say that a call is over while some of it runs.
    splitter_.abandon(record.holding);
    free_record(record);
    if (std::size_t* left = aborted_.find(call); left != nullptr && --*left == 0)
      say_aborted(call, session, effects);
    return;
  }
  close(record, std::move(failure), effects);
  if (node_.order == none && node_.queue_max == 0) return;
  // A home that is wrong may have let the engine forget the call.
  CallRecord** const queue = calls_.find(call);
  if (queue == nullptr) return;
  if ((*queue)->running != 0) --(*queue)->running;
  if (node_.order == none) return pump_line(**queue, effects);
  pump(call, **queue, effects);
}

void Engine::recycle_bucket(const ScopeOfCall& key) {
  Bucket* bucket = *buckets_.find(key);
  buckets_.erase(key);
  bucket->clear();
  free_buckets_.give(bucket);
}

void Engine::close_bucket(Bucket& bucket, Effects& effects) {
  const ScopeRef scope = bucket.deposit();
  if (!scope)
    return effects.refuse(bucket.scope()->call, node_.id, "a scope came without its deposit");
  const Collector& collector = plan_.collectors[scope->collector];
  // A group has 1 to 64 fields.
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - node_.groups[collector.group].fields.size());
  const std::uint64_t filled = bucket.filled(plan_);
  if (filled != all) {
    Notice notice;
    if (filled != 0) notice.lost = note_lost(bucket, collector.group, all & ~filled);
    splitter_.settle(scope->outer, collector.outer, bucket.credit(), scope->call, bucket.session(),
                     std::move(notice), effects);
    return recycle_bucket({scope->id, scope->call});
  }
  Record& record = new_record(scope->call, bucket.session(), collector.group);
  record.credit = bucket.credit();
  continue_path(record, scope->path);
  bucket.take(record.arrivals);
  recycle_bucket({scope->id, scope->call});
  ready(record, scope->outer, effects);
}

Notice Engine::count_notice(const CallRecord& call, const PlanGroup& group) const {
  Notice notice{call.count.warnings(node_, group), nullptr, {}};
  if (auto broken = call.count.broken(node_, group, plan_))
    notice.failure = std::make_unique<Failure>(Failure{
        node_.id, {ErrorCode::invalid_argument, std::move(*broken)}, FailureKind::count_source});
  return notice;
}

void Engine::advance_count(const CallId& id, CallRecord& call, const PlanGroup& group,
                           Effects& effects) {
  for (OrderQueue::Item item; (item = call.queue.pop(false)) != OrderQueue::no_item;)
    call.count.take(call.count.held(item), group, plan_);
  if (call.queue.broken()) return effects.refuse(id, node_.id, "a position came twice");
  const bool ended = call.queue.complete(0);
  bool silent = false;
  if (!call.count.deposit()) {
    if (ended) effects.refuse(id, node_.id, "a scope came without its deposit");
    return;
  }
  if (!call.count.fired() && call.count.ready(group, ended))
    silent = fire_count(id, call, group, ended, effects);
  if (!ended) return;
  if (!silent) end_count(id, call, group, effects);
  // All of its stream is here, so nothing more can come of this call.
  recycle_call(id);
}

void Engine::end_count(const CallId& id, CallRecord& call, const PlanGroup& group,
                       Effects& effects) {
  Notice notice = count_notice(call, group);
  const std::vector<CollectorId>& outer = plan_.collectors[group.collector].outer;
  const bool dead = !call.count.fired();
  if (dead && call.count.any_came())
    notice.lost = {node_.id, 0, call.count.without_frames(group), Lost::Kind::few};
  if (dead || !notice.empty()) {
    Shares nothing;
    splitter_.settle(dead ? call.count.deposit()->outer : nothing, outer,
                     std::exchange(call.credit, Credit()), id, call.session, std::move(notice),
                     effects);
  }
  flush_credit(id, call, effects);
}

bool Engine::fire_count(const CallId& id, CallRecord& call, const PlanGroup& group, bool ended,
                        Effects& effects) {
  Record& record = new_record(id, call.session, 0);
  if (plan_.paths) record.path = {0, 0};
  call.count.fire(group, plan_, record.arrivals, record.inputs);
  // The firing takes the credit, but for what says afterwards what was left over.
  call.credit.refine();
  const bool silent = ended && (call.count.exact(group) || count_notice(call, group).empty());
  record.credit =
      call.credit.take(silent ? call.credit.amount : call.credit.amount - call.credit.amount / 4);
  start(record, call.count.deposit()->outer, 0, effects);
  return silent;
}

EngineCounts Engine::counts() const {
  return {free_records_.in_use(), buckets_.size(), calls_.size()};
}

}  // namespace sluice
