// Bytes to messages, each checked against the plan.
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "runtime/wire/codec.h"
#include "runtime/wire/payload_codec.h"

namespace sluice::wire {

namespace {

using Kind = Message::Kind;

constexpr std::uint64_t any = ~std::uint64_t{0};
constexpr std::size_t share_bytes_min = 7;  // a scope's three numbers, and two round ones

constexpr bool carries_credit(Kind kind) {
  return kind == Kind::frame || kind == Kind::settled || kind == Kind::credit ||
         kind == Kind::cancel;
}

class Decoder {
 public:
  Decoder(const Plan& plan, std::span<const std::byte> bytes, const Sender* sender, Instant now,
          const Limits& limits, Pools& pools, Lending& lending)
      : plan_(plan),
        reader_(bytes),
        sender_(sender),
        now_(now),
        limits_(limits),
        pools_(pools),
        lending_(lending) {}

  Result<Message*> read() {
    message_ = pools_.new_message(Kind::credit, entry_node, {}, 0);
    message_->target = 0;
    read_head();
    if (reader_.ok()) read_body();
    if (reader_.left() != 0)
      reader_.fail(std::to_string(reader_.left()) + " bytes after the end of the message");
    if (reader_.ok()) return message_;
    pools_.give(message_);
    return Error{ErrorCode::corrupt, "a message that cannot be: " + reader_.error()};
  }

 private:
  void read_head() {
    Message& message = *message_;
    const std::uint8_t kind = reader_.u8("the kind");
    if (kind > static_cast<std::uint8_t>(Kind::call_ended))
      return reader_.fail("no kind " + std::to_string(kind));
    message.kind = static_cast<Kind>(kind);
    read_place();
    message.call.home = read_origin("a home");
    message.call.number = reader_.number("a call's number", any);
    if (!message.call) reader_.fail("a call has no number 0");
    message.session = reader_.number("a session", any);
    message.credit.amount = reader_.round_number("credit", Credit::whole_amount);
    if (message.credit.amount != 0)
      message.credit.scale =
          static_cast<std::uint32_t>(reader_.number("a scale of credit", credit_scale_max));
    if ((message.credit.amount != 0) != carries_credit(message.kind))
      reader_.fail("credit where there is none, or none where there is some");
    if (sender_ != nullptr && reader_.ok())
      refuse(sender_->contract.head_problem(message, sender_->origin, pools_.self.machine));
  }

  /// Nothing to say: nothing is wrong.
  void refuse(std::string_view problem) {
    if (!problem.empty()) reader_.fail(problem);
  }

  /// Where it goes: an edge, a collector, a node, or nothing, as its kind says.
  void read_place() {
    Message& message = *message_;
    const std::uint64_t place = reader_.number("a place in the plan", 0xffff);
    const auto target = static_cast<std::uint16_t>(place);
    switch (message.kind) {
      case Kind::frame:
        if (place >= plan_.edges.size()) return reader_.fail("no edge " + std::to_string(place));
        message.to = plan_.edges[place].to;
        message.target = target;
        return;
      case Kind::settled:
        if (place >= plan_.collectors.size())
          return reader_.fail("no collector " + std::to_string(place));
        message.to = plan_.collectors[place].owner;
        message.target = target;
        return;
      case Kind::credit:
        if (place != 0) reader_.fail("credit goes to the entry");
        return;
      case Kind::aborted:
      case Kind::cancel:
      case Kind::abort:
      case Kind::call_ended:
        if (place == entry_node || place >= plan_.nodes.size())
          return reader_.fail("no node " + std::to_string(place));
        (message.kind == Kind::aborted ? message.target : message.to) = target;
    }
  }

  Origin read_origin(std::string_view what) {
    Origin origin;
    origin.machine = static_cast<std::uint32_t>(reader_.number(what, limits_.machines - 1));
    origin.incarnation = static_cast<std::uint32_t>(reader_.number("an incarnation", 0xffffffffU));
    if (origin.incarnation == 0) reader_.fail("no incarnation 0");
    return origin;
  }

  void read_body() {
    switch (message_->kind) {
      case Kind::frame:
        return read_frame(plan_.edges[message_->target]);
      case Kind::settled:
        message_->shares.resize(1);
        return read_share(message_->target, 0, message_->shares[0]);
      case Kind::credit:
        return read_notice();
      case Kind::call_ended:
        message_->floor = reader_.number("a floor", any);
        return;
      case Kind::cancel:
      case Kind::abort:
      case Kind::aborted:
        return;
    }
  }

  void read_frame(const Edge& edge) {
    const std::size_t outputs =
        edge.from == entry_node ? plan_.inputs.size() : plan_.nodes[edge.from].outputs.size();
    Frame* frame = pools_.new_frame(edge.from, outputs);
    message_->frame = FrameRef(frame);
    frame->mask = reader_.number("a mask", any);
    if ((frame->mask & ~edge.mask) != 0 || !edge.takes(frame->mask))
      reader_.fail("a frame whose fields do not go along its edge");
    frame->born =
        now_ -
        Instant(static_cast<std::int64_t>(reader_.number("an age", std::uint64_t{1} << 62U)));
    for (std::size_t i = 0; i < plan_.loop_nodes && reader_.ok(); ++i)
      frame->iterations.push_back(static_cast<std::uint16_t>(reader_.number("a turn", 0xffff)));
    if (plan_.paths) read_path(frame->path);
    for (std::size_t i = 0; i < outputs && reader_.ok(); ++i)
      if ((frame->mask >> i & 1U) != 0) read_value(*frame, i);
    message_->shares.resize(edge.shares.size());
    for (std::size_t i = 0; i < edge.shares.size() && reader_.ok(); ++i)
      read_share(edge.shares[i], 0, message_->shares[i]);
    if (edge.is_output() && reader_.ok() && message_->shares[0].width < delivered(edge, *frame))
      reader_.fail("a share without room for each field");
  }

  void read_value(Frame& frame, std::size_t output) {
    frame.values[output] = read_payload(reader_, lending_, limits_.bytes_max);
    if (sender_ == nullptr || !reader_.ok()) return;
    if (const auto wrong =
            sender_->contract.value_problem(frame.from, output, *frame.values[output]))
      reader_.fail(*wrong);
  }

  /// Each stands at a place of its own in the output.
  static std::uint64_t delivered(const Edge& edge, const Frame& frame) {
    std::uint64_t fields = 0;
    for (const FieldMap& map : edge.fields) fields += frame.mask >> map.from & 1U;
    return fields;
  }

  void read_path(std::vector<std::uint32_t>& path) {
    path.resize(reader_.count("a path", any));
    for (std::uint32_t& step : path) {
      if (!reader_.ok()) return;
      step = static_cast<std::uint32_t>(reader_.number("a step of a path", 0xffffffffU));
    }
  }

  /// One scope of a share's chain, and the part of it.
  Share read_part(CollectorId collector, bool refined) {
    Scope* scope = pools_.new_scope(collector, message_->call);
    Share share{ScopeRef(scope), 0, 0};
    scope->id.origin = read_origin("a scope's machine");
    scope->id.number = reader_.number("a scope's number", any);
    if (sender_ != nullptr && reader_.ok() &&
        !sender_->contract.may_open(collector, scope->id.origin, message_->call, refined))
      reader_.fail("a scope of a machine that cannot have opened it");
    share.begin = reader_.round_number("a share's begin", share_whole);
    share.width = reader_.round_number("a share's width", share_whole);
    if (share.width == 0 || share.width > share_whole - share.begin)
      reader_.fail("a share that is empty or ends past its scope");
    return share;
  }

  void read_share(CollectorId id, std::size_t nesting, Share& into) {
    const Collector& collector = plan_.collectors[id];
    const std::size_t finer = reader_.count("refinements", refinements_max, share_bytes_min);
    scopes_ += finer + 1;
    if (scopes_ > scopes_max || nesting > nesting_max) reader_.fail("too many scopes");
    const bool numbered =
        collector.kind == CollectorKind::order || collector.kind == CollectorKind::output;
    const std::uint64_t sequence = reader_.number("a sequence", numbered ? any : 0);
    if (!reader_.ok()) return;
    Share share = read_part(id, false);
    auto* outermost = const_cast<Scope*>(share.scope.get());
    outermost->sequence = sequence;
    bool first = share.begin == 0;
    for (std::size_t i = 0; i < finer && reader_.ok(); ++i) {
      Share inner = read_part(id, true);
      const_cast<Scope*>(inner.scope.get())->parent = std::move(share);
      share = std::move(inner);
      first = first && share.begin == 0;
    }
    into = std::move(share);
    if (first && reader_.ok()) read_deposit(collector, *outermost, nesting + 1);
  }

  void read_deposit(const Collector& collector, Scope& scope, std::size_t nesting) {
    if (plan_.paths) read_path(scope.path);
    scope.outer.resize(collector.outer.size());
    for (std::size_t i = 0; i < collector.outer.size() && reader_.ok(); ++i)
      read_share(collector.outer[i], nesting, scope.outer[i]);
  }

  NodeId read_node(NodeId least) {
    const std::uint64_t node = reader_.number("a node", plan_.nodes.size() - 1);
    if (node < least) reader_.fail("the entry is no node");
    return static_cast<NodeId>(node);
  }

  void read_notice() {
    constexpr std::uint64_t has_failure = 1;
    constexpr std::uint64_t has_lost = 2;
    const std::uint64_t parts = reader_.number("a notice's parts", has_failure | has_lost);
    if ((parts & has_failure) != 0) {
      message_->failure = std::make_unique<Failure>();
      Failure& failure = *message_->failure;
      failure.node = read_node(entry_node);
      failure.kind = static_cast<FailureKind>(
          reader_.number("a failure's kind", static_cast<std::uint64_t>(FailureKind::node_lost)));
      failure.error.code = static_cast<ErrorCode>(
          reader_.number("an error's code", static_cast<std::uint64_t>(ErrorCode::cancelled)));
      failure.error.message = reader_.text("an error's text", words_max);
    }
    if ((parts & has_lost) != 0) read_lost();
    const std::size_t warnings = reader_.count("warnings", warnings_max);
    for (std::size_t i = 0; i < warnings && reader_.ok(); ++i)
      message_->warnings.push_back(reader_.text("a warning", words_max));
    if (sender_ != nullptr && reader_.ok())
      refuse(sender_->contract.notice_problem(*message_, sender_->origin));
  }

  void read_lost() {
    Lost& lost = message_->lost;
    lost.kind = static_cast<Lost::Kind>(
        reader_.number("news of a kind", static_cast<std::uint64_t>(Lost::Kind::stopped)));
    lost.node = read_node(1);
    const std::vector<PlanGroup>& groups = plan_.nodes[lost.node].groups;
    lost.group = static_cast<std::uint16_t>(reader_.number("a group", 0xffff));
    lost.fields = reader_.number("fields", any);
    if (lost.group >= groups.size()) return reader_.fail("a group that the node does not have");
    const std::size_t fields = lost.kind == Lost::Kind::silent
                                   ? plan_.nodes[lost.node].outputs.size()
                                   : groups[lost.group].fields.size();
    if (fields < 64 && lost.fields >> fields != 0) reader_.fail("a field that the node lacks");
    if (!can_tell(groups[lost.group], lost)) reader_.fail("news that such a node does not tell");
  }

  static bool can_tell(const PlanGroup& group, const Lost& lost) {
    const bool counts = !group.counts.empty();
    switch (lost.kind) {
      case Lost::Kind::missing:
        return group.collector != none && !counts && lost.fields != 0;
      case Lost::Kind::few:
        return counts;
      case Lost::Kind::silent:
        return lost.group == 0;
      case Lost::Kind::ran:
      case Lost::Kind::stopped:
        return lost.group == 0 && lost.fields == 0;
    }
    return false;
  }

  const Plan& plan_;
  ByteReader reader_;
  const Sender* const sender_;  // null: whoever
  const Instant now_;
  const Limits& limits_;
  Pools& pools_;
  Lending& lending_;
  Message* message_ = nullptr;
  std::size_t scopes_ = 0;
};

std::uint32_t checksum_at(std::span<const std::byte> four) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 4; ++i) sum |= static_cast<std::uint32_t>(four[i]) << (8 * i);
  return sum;
}

Result<Message*> decode_from(const Plan& plan, std::span<const std::byte> bytes,
                             const Sender* sender, Instant now, const Limits& limits, Pools& pools,
                             Lending& lending) {
  constexpr std::size_t tail = sizeof(std::uint32_t);
  if (bytes.size() > limits.bytes_max)
    return Error{ErrorCode::exhausted, "a message of " + std::to_string(bytes.size()) +
                                           " bytes; the limit is " +
                                           std::to_string(limits.bytes_max)};
  if (bytes.size() <= 1 + tail)
    return Error{ErrorCode::corrupt, "a message of " + std::to_string(bytes.size()) + " bytes"};
  if (bytes[0] != static_cast<std::byte>(version))
    return Error{ErrorCode::corrupt, "a message of version " +
                                         std::to_string(static_cast<unsigned>(bytes[0])) +
                                         "; this is version " + std::to_string(version)};
  const std::span<const std::byte> body = bytes.first(bytes.size() - tail);
  if (crc32c(body) != checksum_at(bytes.last(tail)))
    return Error{ErrorCode::corrupt, "a message that does not have its checksum"};
  return Decoder(plan, body.subspan(1), sender, now, limits, pools, lending).read();
}

}  // namespace

std::optional<Origin> home_of(std::span<const std::byte> bytes) {
  constexpr std::uint64_t u32_max = 0xffff'ffffU;
  ByteReader in(bytes);
  (void)in.u8("a version");
  (void)in.u8("a kind");
  (void)in.number("a place in the plan", 0xffff);
  Origin home;
  home.machine = static_cast<std::uint32_t>(in.number("a home", u32_max));
  home.incarnation = static_cast<std::uint32_t>(in.number("an incarnation", u32_max));
  return in.ok() ? std::optional(home) : std::nullopt;
}

Result<Message*> decode(const Plan& plan, std::span<const std::byte> bytes, const Sender& sender,
                        Instant now, const Limits& limits, Pools& pools) {
  Lending none;
  return decode_from(plan, bytes, &sender, now, limits, pools, none);
}

Result<Message*> decode(const Plan& plan, std::span<const std::byte> bytes, const Sender& sender,
                        Instant now, const Limits& limits, Pools& pools, Lending& lending) {
  return decode_from(plan, bytes, &sender, now, limits, pools, lending);
}

Result<Message*> decode(const Plan& plan, std::span<const std::byte> bytes, Instant now,
                        const Limits& limits, Pools& pools) {
  Lending none;
  return decode_from(plan, bytes, nullptr, now, limits, pools, none);
}

}  // namespace sluice::wire
