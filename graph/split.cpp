#include "graph/split.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace sluice {

namespace {

/// Credit is refined when a yield's part falls below this: enough to divide among a node's edges.
constexpr std::uint64_t credit_low = std::uint64_t{1} << 16;

/// A share is refined when a branch would get less: room for every field of a frame.
constexpr std::uint64_t thin = outputs_per_node_max;

/// The part of `whole` that yield `index` takes: 1/2, then two of 1/8, four of 1/32, ... The sum
/// over all yields is 1, and yield n costs 2 log2(n) + 1 bits.
std::uint64_t yield_part(std::uint64_t whole, std::uint64_t index) {
  const int block = static_cast<int>(std::bit_width(index + 1)) - 1;
  const int shift = 2 * block + 1;
  return shift >= 64 ? 0 : whole >> shift;
}

}  // namespace

Splitter::Splitter(const Plan& plan, NodeId node, Pools& pools)
    : plan_(plan), node_(plan.nodes[node]), pools_(pools) {
  for (const EdgeId id : node_.edges) edges_.push_back(&plan.edges[id]);
  places_.resize(edges_.size());
  message_of_edge_.resize(edges_.size());
  open_scope_.resize(node_.flows.size() - node_.held);
  opens_ = !open_scope_.empty();
  list_ways();
}

void Splitter::list_ways() {
  std::unordered_map<std::uint32_t, std::uint16_t> at;  // an edge, or 1 << 16 | a collector
  for (std::uint16_t i = 0; i < edges_.size(); ++i) at[edges_[i]->id] = i;
  for (std::uint16_t i = node_.held; i < node_.flows.size(); ++i)
    at[1U << 16U | node_.flows[i].collector] = static_cast<std::uint16_t>(i - node_.held);
  for (std::uint16_t i = 0; i < node_.flows.size(); ++i) {
    first_way_.push_back(ways_.size());
    for (const Branch& branch : node_.flows[i].branches) {
      const std::uint16_t target =
          at.at(branch.through_join ? 1U << 16U | branch.target : branch.target);
      ways_.push_back({branch.through_join, target, branch.position});
      if (!branch.through_join) places_[target].push_back({i, branch.position});
      opens_ = opens_ || branch.through_join;
    }
  }
  first_way_.push_back(ways_.size());
}

void Splitter::begin(Holding& holding, Shares& held, Credit credit, const CallId& call,
                     std::uint64_t session, std::uint64_t sequence) {
  holding.yields = 0;
  holding.call = call;
  holding.session = session;
  take_credit(holding, credit);
  if (holding.parts.size() < node_.flows.size()) holding.parts.resize(node_.flows.size());
  for (std::size_t i = 0; i < node_.flows.size(); ++i) {
    Holding::Part& part = holding.parts[i];
    part.first_yield = 0;
    if (i < node_.held) {
      part.rest.scope = std::move(held[i].scope);
      part.rest.begin = held[i].begin;
      part.rest.width = std::exchange(held[i].width, 0);
    } else if (node_.flows[i].kind == Flow::Kind::opened_per_activation) {
      Scope* scope = pools_.new_scope(node_.flows[i].collector, call);
      scope->sequence = sequence;
      scope->outer.resize(plan_.collectors[node_.flows[i].collector].outer.size());
      part.rest = Share{ScopeRef(scope), 0, share_whole};
    }
    part.whole = part.rest.width;
  }
  held.forget();
  // A count bucket opens with the entry's activation; what it keeps for its node is given to it
  // at the first yield, like any join's (see `open_joins`).
}

void Splitter::fork(Holding& holding, Holding& to, std::uint32_t left) {
  to.yields = 0;
  to.call = holding.call;
  to.session = holding.session;
  holding.credit.refine();
  take_credit(to, holding.credit.take(holding.credit.amount / left));
  take_credit(holding, holding.credit);
  if (to.parts.size() < node_.flows.size()) to.parts.resize(node_.flows.size());
  for (std::size_t i = 0; i < node_.flows.size(); ++i) {
    Holding::Part& rest = holding.parts[i];
    Holding::Part& part = to.parts[i];
    if (node_.flows[i].kind == Flow::Kind::opened_per_activation) {
      // The first takes the scope that has begun; the others' have the numbers behind it.
      part = std::move(rest);
      Scope* scope = pools_.new_scope(node_.flows[i].collector, holding.call);
      scope->sequence = part.rest.scope->sequence + 1;
      scope->outer.resize(plan_.collectors[node_.flows[i].collector].outer.size());
      rest = {Share{ScopeRef(scope), 0, share_whole}, share_whole, 0};
      continue;
    }
    part = {};
    if (rest.rest.width == 0) continue;  // of a join that each yield opens
    if (rest.rest.width < left * thin) open_finer(rest, holding, node_.flows[i].collector);
    const std::uint64_t width = rest.rest.width / left;
    part = {Share{rest.rest.scope, rest.rest.begin, width}, width, 0};
    rest.rest.begin += width;
    rest.rest.width -= width;
    rest.whole = rest.rest.width;
  }
}

void Splitter::take_credit(CreditInHand& holding, Credit credit) {
  holding.credit = credit;
  holding.credit_whole = credit.amount;
  holding.credit_first_yield = holding.yields;
}

void Splitter::open_joins(const Holding& holding, const Frame& frame) {
  for (std::size_t i = node_.held; i < node_.flows.size(); ++i) {
    const Flow& flow = node_.flows[i];
    ScopeRef& open = open_scope_[i - node_.held];
    if (flow.kind == Flow::Kind::opened_per_activation) {
      // Only the entry opens count buckets, and it yields once: its scope is this yield's.
      if (plan_.collectors[flow.collector].kind == CollectorKind::count)
        open = holding.parts[i].rest.scope;
      continue;
    }
    if (!std::ranges::any_of(ways_of(i), [&](const Way& way) { return is_active(way); })) continue;
    Scope* scope = pools_.new_scope(flow.collector, holding.call);
    scope->outer.resize(plan_.collectors[flow.collector].outer.size());
    if (plan_.paths) scope->path = frame.path;
    open = ScopeRef(scope);
  }
}

void Splitter::open_finer(Holding::Part& part, const Holding& holding, CollectorId collector) {
  Scope* finer = pools_.new_scope(collector, holding.call);
  finer->parent = std::move(part.rest);
  part.rest = Share{ScopeRef(finer), 0, share_whole};
  part.whole = share_whole;
  part.first_yield = holding.yields;
}

inline void Splitter::next_part(Holding::Part& part, const Holding& holding, std::size_t branches,
                                bool last, CollectorId collector, Share& taken) {
  std::uint64_t width =
      last ? part.rest.width : yield_part(part.whole, holding.yields - part.first_yield);
  if (width < branches * thin) {
    open_finer(part, holding, collector);
    width = last ? share_whole : yield_part(share_whole, 0);
  }
  taken.begin = part.rest.begin;
  taken.width = width;
  part.rest.begin += width;
  part.rest.width -= width;
  if (last)
    taken.scope = std::move(part.rest.scope);
  else
    taken.scope = part.rest.scope;
}

void Splitter::divide(Holding& holding, std::size_t index, bool last) {
  const Flow& flow = node_.flows[index];
  const std::span<const Way> ways = ways_of(index);
  const auto active = static_cast<std::size_t>(
      std::ranges::count_if(ways, [&](const Way& way) { return is_active(way); }));
  if (active == 0) return;
  Holding::Part& part = holding.parts[index];
  Share share;
  if (flow.kind == Flow::Kind::opened_per_yield)
    share = Share{open_scope_[index - node_.held], 0, share_whole};
  else
    next_part(part, holding, active, last, flow.collector, share);

  const std::uint64_t each = share.width / active;
  std::size_t given = 0;
  for (const Way& way : ways) {
    if (!is_active(way)) continue;
    Share& slot = way.through_join ? open_scope_[way.target]->outer[way.position]
                                   : message_of_edge_[way.target]->shares[way.position];
    ++given;
    slot.begin = share.begin;
    slot.width = given == active ? share.width : each;
    share.begin += slot.width;
    share.width -= slot.width;
    if (given == active)
      slot.scope = std::move(share.scope);
    else
      slot.scope = share.scope;
  }
}

inline void Splitter::refine_credit(CreditInHand& holding) {
  if (yield_part(holding.credit_whole, holding.yields - holding.credit_first_yield) >= credit_low)
    return;
  holding.credit.refine();
  take_credit(holding, holding.credit);
}

inline bool Splitter::is_spent(const Holding& holding) const {
  return std::ranges::all_of(std::span(holding.parts).first(node_.flows.size()),
                             [](const Holding::Part& part) { return part.rest.width == 0; });
}

inline std::uint64_t Splitter::next_credit(const CreditInHand& holding, bool all) {
  if (all) return holding.credit.amount;
  return yield_part(holding.credit_whole, holding.yields - holding.credit_first_yield);
}

void Splitter::spread_credit(CreditInHand& holding, std::size_t first_message, bool all,
                             Effects& effects) {
  const std::size_t count = effects.messages.size() - first_message;
  if (count == 0) return;
  std::uint64_t give = next_credit(holding, all);
  const std::uint64_t each = give / count;
  for (std::size_t i = first_message; i < effects.messages.size(); ++i) {
    effects.messages[i]->credit =
        holding.credit.take(i + 1 == effects.messages.size() ? give : each);
    give -= effects.messages[i]->credit.amount;
  }
}

// Inline: a hop is many small steps, and each of these has one caller or two, here.
inline Message* Splitter::send(const Edge& edge, const FrameRef& frame, const Holding& holding,
                               Effects& effects) {
  Message* message =
      pools_.new_message(Message::Kind::frame, edge.to, holding.call, holding.session);
  message->target = edge.id;
  message->frame = frame;
  message->shares.resize(edge.shares.size());
  effects.messages.push_back(message);
  return message;
}

inline void Splitter::pass_on(Holding& holding, std::size_t edge, const FrameRef& frame, bool last,
                              Effects& effects) {
  Message& message = *send(*edges_[edge], frame, holding, effects);
  for (const Place& place : places_[edge])
    next_part(holding.parts[place.flow], holding, 1, last, node_.flows[place.flow].collector,
              message.shares[place.position]);
  message.credit = holding.credit.take(next_credit(holding, last && is_spent(holding)));
}

void Splitter::part(Holding& holding, const FrameRef& frame, bool last, Effects& effects) {
  const std::size_t first_message = effects.messages.size();
  for (std::size_t i = 0; i < edges_.size(); ++i)
    if (edges_[i]->takes(frame->mask))
      message_of_edge_[i] = send(*edges_[i], frame, holding, effects);
  open_joins(holding, *frame);
  for (std::size_t i = 0; i < node_.flows.size(); ++i) divide(holding, i, last);
  for (ScopeRef& open : open_scope_) open = ScopeRef();
  std::ranges::fill(message_of_edge_, nullptr);
  spread_credit(holding, first_message, last && is_spent(holding), effects);
}

void Splitter::yield(Holding& holding, const FrameRef& frame, bool last, Effects& effects) {
  refine_credit(holding);
  std::size_t taken = 0;
  std::size_t taker = 0;
  for (std::size_t i = 0; i < edges_.size(); ++i)
    if (edges_[i]->takes(frame->mask)) {
      ++taken;
      taker = i;
    }
  if (opens_ || taken > 1)
    part(holding, frame, last, effects);  // even what goes along no edge may open a count's scope
  else if (taken == 1)
    pass_on(holding, taker, frame, last, effects);
  ++holding.yields;
}

Credit Splitter::half_credit(Holding& holding) {
  holding.credit.refine();
  const Credit half = holding.credit.take(holding.credit.amount / 2);
  take_credit(holding, holding.credit);
  return half;
}

void Splitter::abandon(Holding& holding) const {
  for (std::size_t i = 0; i < node_.flows.size(); ++i) holding.parts[i].rest = Share{};
  holding.credit = Credit();
}

void Splitter::end(Holding& holding, std::unique_ptr<Failure> failure, Effects& effects) {
  if (!holding.credit) return;  // the last yield took everything
  refine_credit(holding);
  if (failure) {
    send_credit(holding.credit.take(holding.credit.amount / 2), holding.call, holding.session,
                effects);
    effects.messages.back()->failure = std::move(failure);
  }
  const std::size_t first_message = effects.messages.size();
  for (std::size_t i = 0; i < node_.flows.size(); ++i) {
    Holding::Part& part = holding.parts[i];
    if (part.rest.width != 0) {
      const Collector& collector = plan_.collectors[node_.flows[i].collector];
      Message* message = pools_.new_message(Message::Kind::settled, collector.owner, holding.call,
                                            holding.session);
      message->target = collector.id;
      message->shares.resize(1);
      message->shares[0] = std::move(part.rest);
      effects.messages.push_back(message);
    }
    part.rest = Share{};
  }
  spread_credit(holding, first_message, true, effects);
  if (holding.credit) send_credit(holding.credit, holding.call, holding.session, effects);
  holding.credit = Credit();
}

void Splitter::settle(Shares& shares, const std::vector<CollectorId>& collectors, Credit credit,
                      const CallId& call, std::uint64_t session, Notice notice, Effects& effects) {
  CreditInHand rest;
  rest.call = call;
  rest.session = session;
  take_credit(rest, credit);
  refine_credit(rest);
  const std::size_t first_message = effects.messages.size();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].width == 0) continue;
    const Collector& collector = plan_.collectors[collectors[i]];
    Message* message = pools_.new_message(Message::Kind::settled, collector.owner, call, session);
    message->target = collector.id;
    message->shares.resize(1);
    message->shares[0] = std::move(shares[i]);
    effects.messages.push_back(message);
  }
  shares.clear();
  if (!notice.empty() || effects.messages.size() == first_message) {
    Message* message = pools_.new_message(Message::Kind::credit, entry_node, call, session);
    message->warnings = std::move(notice.warnings);
    message->failure = std::move(notice.failure);
    message->lost = notice.lost;
    effects.messages.push_back(message);
  }
  spread_credit(rest, first_message, true, effects);
}

void Splitter::send_credit(Credit credit, const CallId& call, std::uint64_t session,
                           Effects& effects) {
  Message* message = pools_.new_message(Message::Kind::credit, entry_node, call, session);
  message->credit = credit;
  effects.messages.push_back(message);
}

}  // namespace sluice
