#include "graph/bucket.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

namespace {

/// The share of the outermost scope first, each refinement after it.
void path_of(const Share& share, std::vector<std::uint64_t>& path) {
  path.clear();
  for (const Share* at = &share;; at = &at->scope->parent) {
    path.push_back(at->begin);
    if (!at->scope->parent.scope) break;
  }
  std::ranges::reverse(path);
}

}  // namespace

bool is_before(const Share& a, const Share& b) {
  if (a.scope->id == b.scope->id) return a.begin < b.begin;
  std::vector<std::uint64_t> pa;
  std::vector<std::uint64_t> pb;
  path_of(a, pa);
  path_of(b, pb);
  return pa < pb;
}

const Share& outermost(const Share& share) {
  const Share* at = &share;
  while (at->scope->parent.scope) at = &at->scope->parent;
  return *at;
}

bool holds_deposit(const Share& share) {
  for (const Share* at = &share; at->begin == 0; at = &at->scope->parent)
    if (!at->scope->parent.scope) return true;
  return false;
}

void Bucket::open(ScopeRef scope, std::uint64_t session) {
  scope_ = std::move(scope);
  session_ = session;
}

bool Bucket::credit_share(const Share& share) {
  const Share* part = &share;
  for (; part->scope->parent.scope; part = &part->scope->parent) {
    std::uint64_t& received = finer_[part->scope->id];
    if (part->width > share_whole - received) return false;
    received += part->width;
    if (received != share_whole) return true;
    finer_.erase(part->scope->id);
  }
  if (part->width > share_whole - received_) return false;
  received_ += part->width;
  return true;
}

bool Bucket::add(EdgeId edge, FrameRef frame, const Share& share) {
  if (!credit_share(share)) return false;
  if (share.begin == 0 && holds_deposit(share)) deposit_ = outermost(share).scope;
  if (frame) arrivals_.push_back({edge, std::move(frame), share});
  return true;
}

std::uint64_t Bucket::filled(const Plan& plan) const {
  std::uint64_t filled = 0;
  for (const Arrival& arrival : arrivals_)
    for (const FieldMap& map : plan.edges[arrival.edge].fields)
      if ((arrival.frame->mask >> map.from & 1U) != 0) filled |= std::uint64_t{1} << map.to;
  return filled;
}

void Bucket::take(std::vector<Arrival>& arrivals) {
  // Two frames never stand at one place. (A stable sort would take memory.)
  std::ranges::sort(arrivals_,
                    [](const Arrival& a, const Arrival& b) { return is_before(a.place, b.place); });
  arrivals.swap(arrivals_);
}

void Bucket::clear() {
  scope_ = deposit_ = ScopeRef();
  received_ = 0;
  credit_ = Credit();
  arrivals_.clear();
  finer_.clear();
}

void CountBucket::clear() {
  opened_ = fired_ = false;
  deposit_ = ScopeRef();
  counts_.clear();
  arrivals_.clear();
  held_.clear();
  free_.clear();
}

void CountBucket::take_deposit(const Share& share) {
  if (holds_deposit(share)) deposit_ = outermost(share).scope;
}

void CountBucket::open(const PlanGroup& group) {
  if (opened_) return;
  opened_ = true;
  counts_.assign(group.counts.size(), Count{});
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (group.counts[i].kind == PlanCount::Kind::literal)
      counts_[i].wanted = group.counts[i].literal;
}

std::uint32_t CountBucket::hold(Arrival arrival) {
  if (free_.empty()) {
    held_.push_back(std::move(arrival));
    return static_cast<std::uint32_t>(held_.size() - 1);
  }
  const std::uint32_t item = free_.back();
  free_.pop_back();
  held_[item] = std::move(arrival);
  return item;
}

Arrival CountBucket::held(std::uint32_t item) {
  free_.push_back(item);
  return std::move(held_[item]);
}

void CountBucket::take(Arrival arrival, const PlanGroup& group, const Plan& plan) {
  const Frame& frame = *arrival.frame;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const PlanCount& count = group.counts[i];
    if (count.kind == PlanCount::Kind::runtime && count.source == arrival.edge &&
        (frame.mask >> count.source_field & 1U) != 0 && ++counts_[i].numbers == 1)
      counts_[i].wanted = frame.values[count.source_field]->number;
  }
  for (const FieldMap& map : plan.edges[arrival.edge].fields)
    counts_[map.to].came += static_cast<std::int64_t>(frame.mask >> map.from & 1U);
  if (!fired_) arrivals_.push_back(std::move(arrival));
}

bool CountBucket::ready(const PlanGroup& group, bool ended) const {
  if (group.by_path && !ended) return false;
  std::int64_t frames = 0;
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    frames += counts_[i].came;
    if (group.counts[i].kind == PlanCount::Kind::all) {
      if (!ended) return false;
      ++wanted;
      continue;
    }
    if (counts_[i].wanted < 0 || counts_[i].came < counts_[i].wanted) return false;
    wanted += counts_[i].wanted;
  }
  return frames > 0 || wanted == 0;
}

void CountBucket::fire(const PlanGroup& group, const Plan& plan, std::vector<Arrival>& arrivals,
                       std::vector<InputValue>& inputs) {
  fired_ = true;
  if (group.by_path)
    std::ranges::sort(arrivals_, [](const Arrival& a, const Arrival& b) {
      const auto order = a.frame->path <=> b.frame->path;
      return order != 0 ? order < 0 : is_before(a.place, b.place);
    });
  // By field, as the inputs of an activation stand.
  for (std::uint16_t field = 0; field < group.fields.size(); ++field) {
    const bool all = group.counts[field].kind == PlanCount::Kind::all;
    std::int64_t left = counts_[field].wanted;
    for (const Arrival& arrival : arrivals_) {
      for (const FieldMap& map : plan.edges[arrival.edge].fields) {
        if (map.to != field || (arrival.frame->mask >> map.from & 1U) == 0) continue;
        if (!all && left-- <= 0) continue;
        inputs.push_back({map.to, take_value(arrival.frame, map)});
      }
    }
  }
  arrivals.swap(arrivals_);
  arrivals_.clear();
}

bool CountBucket::exact(const PlanGroup& group) const {
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (group.counts[i].kind != PlanCount::Kind::literal || counts_[i].came != counts_[i].wanted)
      return false;
  return true;
}

std::optional<std::string> CountBucket::broken(const PlanNode& node, const PlanGroup& group,
                                               const Plan& plan) const {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const PlanCount& count = group.counts[i];
    const std::int64_t numbers = counts_[i].numbers;
    // No number and no frames: a branch that was not taken.
    if (count.kind != PlanCount::Kind::runtime || (numbers == 1 && counts_[i].wanted >= 0))
      continue;
    if (numbers == 0 && counts_[i].came == 0) continue;
    const PlanNode& source = plan.nodes[plan.edges[count.source].from];
    const std::string number =
        source.id == entry_node
            ? "the call's input '" + source.outputs[count.source_field] + "'"
            : "'" + source.name + "." + source.outputs[count.source_field] + "'";
    if (numbers == 1)
      return number + " is " + std::to_string(counts_[i].wanted) + ", and node '" + node.name +
             "' counts the frames of '" + group.fields[count.field] +
             "' by it: a count is 0 or more";
    if (source.id == entry_node)
      return number + " did not come, and node '" + node.name + "' counts the frames of '" +
             group.fields[count.field] + "' by it";
    return "node '" + source.name + "' brought " + std::to_string(numbers) + " numbers of '" +
           source.outputs[count.source_field] + "', by which node '" + node.name +
           "' counts: it must bring exactly one in a call";
  }
  return std::nullopt;
}

bool CountBucket::any_came() const {
  return std::ranges::any_of(counts_, [](const Count& count) { return count.came > 0; });
}

std::uint64_t CountBucket::without_frames(const PlanGroup& group) const {
  std::uint64_t fields = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i].came == 0 && counts_[i].wanted != 0 &&
        group.counts[i].kind != PlanCount::Kind::all)
      fields |= std::uint64_t{1} << group.counts[i].field;
  return fields;
}

std::vector<std::string> CountBucket::warnings(const PlanNode& node, const PlanGroup& group) const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const Count& count = counts_[i];
    const std::string& field = group.fields[group.counts[i].field];
    if (count.wanted < 0 && group.counts[i].kind == PlanCount::Kind::runtime) continue;
    const std::int64_t wanted =
        group.counts[i].kind == PlanCount::Kind::all ? count.came : count.wanted;
    const std::int64_t over = count.came - wanted;
    if (!fired_ && over < 0)
      texts.push_back(node.name + ": " + std::to_string(count.came) + " of " +
                      std::to_string(wanted) + " frames of " + field + " came, it did not run");
    else if (fired_ && over > 0)
      texts.push_back(node.name + ": " + std::to_string(over) + " frame" + (over == 1 ? "" : "s") +
                      " of " + field + " left over");
  }
  return texts;
}

}  // namespace sluice
