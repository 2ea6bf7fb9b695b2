#include "cli/why_skipped.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace sluice::cli {

namespace {

/// What a node did in one call.
struct Deeds {
  std::uint64_t fields = 0;  // that came in its frames
  bool ran = false;
  bool failed = false;
  bool dropped = false;  // inputs that came for it
};

/// Of a field, or of what brings it.
enum class Came : std::uint8_t { no, unknown, yes };

class Skips {
 public:
  Skips(const Plan& plan, const std::vector<std::string>& elsewhere)
      : plan_(plan), away_(plan.nodes.size()), deeds_(plan.nodes.size()) {
    for (const PlanNode& node : plan.nodes)
      away_[node.id] = std::ranges::find(elsewhere, node.name) != elsewhere.end();
  }

  void begin(const CallSpan& call) {
    deeds_.assign(plan_.nodes.size(), {});
    deeds_[entry_node] = {call.inputs, true, false, false};
    ended_well_ = call.ok;
    anything_ran_ = false;
  }
  void add(const Span& span) {
    Deeds& deeds = deeds_[span.node];
    deeds.fields |= span.fields;
    deeds.ran = anything_ran_ = true;
    deeds.failed = deeds.failed || span.failed;
  }
  void add(const Drop& drop) { deeds_[drop.node].dropped = true; }
  std::vector<SkippedNode> list() const {
    std::vector<SkippedNode> skipped;
    // It was refused, or over at once: its own words say why, and no node has more to say.
    if (!ended_well_ && !anything_ran_) return skipped;
    for (const PlanNode& node : plan_.nodes)
      if (!deeds_[node.id].ran && !away_[node.id]) skipped.push_back({node.name, why(node)});
    return skipped;
  }

 private:
  std::string why(const PlanNode& node) const {
    std::string text;
    for (std::size_t g = 0; g < node.groups.size(); ++g) {
      text += text.empty() ? "" : "; ";
      if (node.groups.size() > 1) text += "group " + std::to_string(g) + ": ";
      text += why_not(node, node.groups[g]);
    }
    return text;
  }

  /// Why a group of the node did not fire.
  std::string why_not(const PlanNode& node, const PlanGroup& group) const {
    std::string missing;
    std::string unknown;
    const auto add = [](std::string& text, const std::string& more) {
      text += (text.empty() ? "" : ", ") + more;
    };
    for (std::uint16_t field = 0; field < group.fields.size(); ++field) {
      const bool wanted = group.counts.empty() || group.counts[field].literal != 0 ||
                          group.counts[field].kind != PlanCount::Kind::literal;
      const Came came = came_of(group, field);
      if (came == Came::no && wanted)
        add(missing, group.fields[field] + " did not come from " + sources(group, field));
      if (came == Came::unknown) add(unknown, group.fields[field]);
    }
    for (const PlanCount& count : group.counts)
      if (count.kind == PlanCount::Kind::runtime &&
          came_from(plan_.edges[count.source].from, count.source_field) == Came::no)
        add(missing, "the number did not come from " +
                         source(plan_.edges[count.source].from, count.source_field));
    if (!missing.empty()) return missing;
    if (!unknown.empty())
      return "the trace does not know whether " + unknown + " came from another machine";
    return met_never(node, group);
  }

  /// Each field came, and it was still not enough.
  std::string met_never(const PlanNode& node, const PlanGroup& group) const {
    const std::string cut = ended_well_ ? "" : ", or the call ended first";
    if (deeds_[node.id].dropped) return "what came for it was dropped, or too old" + cut;
    if (!group.counts.empty()) return "fewer frames came than it counts" + cut;
    if (group.collector != none)
      return "its fields came, but never all of them for one yield of " +
             plan_.nodes[plan_.collectors[group.collector].root].name + cut;
    if (group.fields.size() > 1) return "its fields came, but never all of them in one frame" + cut;
    if (node.max_age != std::chrono::nanoseconds{})
      return "what came was older than its max_age" + cut;
    return "what it reads came, but the call ended first";
  }

  Came came_from(NodeId node, std::uint16_t output) const {
    if (away_[node]) return Came::unknown;
    return (deeds_[node].fields >> output & 1U) != 0 ? Came::yes : Came::no;
  }

  Came came_of(const PlanGroup& group, std::uint16_t field) const {
    Came came = Came::no;
    for (const EdgeId id : group.edges)
      for (const FieldMap& map : plan_.edges[id].fields)
        if (map.to == field) came = std::max(came, came_from(plan_.edges[id].from, map.from));
    return came;
  }

  /// "side.f (side did not run) or other.g (other failed)".
  std::string sources(const PlanGroup& group, std::uint16_t field) const {
    std::string text;
    for (const EdgeId id : group.edges)
      for (const FieldMap& map : plan_.edges[id].fields)
        if (map.to == field)
          text += (text.empty() ? "" : " or ") + source(plan_.edges[id].from, map.from);
    return text;
  }

  std::string source(NodeId id, std::uint16_t output) const {
    const PlanNode& node = plan_.nodes[id];
    const std::string name = node.name + "." + node.outputs[output];
    if (id == entry_node) return name + " (the call did not bring it)";
    const Deeds& deeds = deeds_[id];
    if (!deeds.ran) return name + " (" + node.name + " did not run)";
    if (deeds.failed)
      return name + " (" + node.name + " failed" + (node.skip_errors ? ", on_error: skip)" : ")");
    return name + " (" + node.name + " ran without it)";
  }

  const Plan& plan_;
  std::vector<bool> away_;
  std::vector<Deeds> deeds_;  // in the call in hand, by node
  bool ended_well_ = false;
  bool anything_ran_ = false;
};

}  // namespace

std::vector<std::vector<SkippedNode>> skipped_nodes(const Plan& plan, const Trace& trace,
                                                    const std::vector<std::string>& elsewhere) {
  std::vector<std::vector<SkippedNode>> skipped(trace.calls.size());
  if (trace.left_out > 0 || trace.drops_left_out > 0) return skipped;
  std::vector<std::size_t> by_call(trace.spans.size());
  std::iota(by_call.begin(), by_call.end(), std::size_t{0});
  std::ranges::sort(by_call, {}, [&](std::size_t i) { return trace.spans[i].call; });
  std::vector<Drop> drops = trace.drops;
  std::ranges::stable_sort(drops, {}, &Drop::call);
  Skips skips(plan, elsewhere);
  auto next = by_call.begin();
  auto next_drop = drops.begin();
  for (std::size_t call = 0; call < trace.calls.size(); ++call) {
    skips.begin(trace.calls[call]);
    for (; next != by_call.end() && trace.spans[*next].call == call; ++next)
      skips.add(trace.spans[*next]);
    for (; next_drop != drops.end() && next_drop->call == call; ++next_drop) skips.add(*next_drop);
    if (trace.calls[call].ended) skipped[call] = skips.list();
  }
  return skipped;
}

}  // namespace sluice::cli
