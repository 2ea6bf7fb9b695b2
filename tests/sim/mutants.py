"""Plants mistakes in the engine, one at a time, and sees to it that each is found.

    python3 mutants.py ROOT BUILD [--jobs N] [--only PATTERN]

The driver, tests/plant/planted.py, says what a row is. A mutant is killed when the comparison with the
evaluator or the hunt under faults fails, crashes or does not end.
"""
from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../plant"))
import planted  # noqa: E402

# name, file, what is there, what is planted, sources to compile
MUTANTS = [
    ("C1 a count fires again", "graph/bucket.cpp", "  fired_ = true;", "  fired_ = false;", None),
    ("C1 a refined share counts twice", "graph/bucket.cpp", "    finer_.erase(part->scope->id);\n",
     "    finer_.erase(part->scope->id);\n    credit_share(part->scope->parent);\n", None),
    ("every first part of a refinement brings a deposit", "graph/bucket.cpp",
     "    if (!at->scope->parent.scope) return true;", "    return true;", None),
    ("C2 a join fires when half is there", "graph/bucket.h",
     "return received_ == share_whole;", "return received_ >= share_whole / 2;",
     ["graph/engine.cpp", "graph/bucket.cpp"]),
    ("C3 scopes of one join mix", "graph/engine.cpp",
     "buckets_[{scope->id, message.call}];\n  if (bucket != nullptr) {",
     "buckets_[{ScopeId(), message.call}];\n  if (bucket != nullptr) {", None),
    ("C4 a link takes a message twice", "runtime/link.h", "if (number <= applied_)",
     "if (number < applied_)", ["runtime/sim/network.cpp"]),
    ("C4 a link forgets what it did not deliver", "runtime/link.h",
     "applied(number);\n    for (std::size_t i = 0;", "applied(number);\n    for (std::size_t i = 1;",
     ["runtime/sim/network.cpp"]),
    ("C5 a queue releases what is there", "graph/order_queue.cpp",
     "if (first.begin > track.frontier) return false;\n  if (first.begin < track.frontier) {", "if (false) {", None),
    ("C5 a frame passes before its turn", "graph/order_queue.cpp",
     "if (share.begin != track.frontier) return false;", "", None),
    ("C6 an order stands still", "graph/order_queue.cpp",
     "if (!item || !keep_open) tracks_[hand_].frontier += first.width;",
     "if (!item) tracks_[hand_].frontier += first.width;", None),
    ("C7 a call ends at the first message", "graph/coordinator.h",
     "call.started ? call.returned.complete()", "call.started ? true", ["graph/coordinator.cpp"]),
    ("C8 a failure is hidden", "graph/engine.cpp", "if (failure && node_.skip_errors &&",
     "if (failure &&", None),
    ("C8 the cause is another node", "graph/engine.cpp",
     "if (record.holding.credit) splitter_.end(",
     "if (failure) failure->node = node_.id > 1 ? 1 : 2;\n"
     "  if (record.holding.credit) splitter_.end(", None),
    ("of a node's failures the first to come is told", "graph/coordinator.cpp",
     "return std::tie(a.node, a.kind, follows, a.error.message) <\n"
     "         std::tie(b.node, b.kind, other_follows, b.error.message);",
     "return (void)follows, (void)other_follows, a.node < b.node;", None),
    ("C9 credit is lost at the end", "graph/split.cpp",
     "  if (holding.credit) send_credit(holding.credit, holding.call, holding.session, effects);\n",
     "", None),
    ("C9 credit that does not fit is dropped", "graph/engine.cpp",
     "  if (!held.absorb(message.credit))\n    splitter_.send_credit(message.credit, message.call, "
     "message.session, effects);", "  (void)held.absorb(message.credit);\n  (void)effects;", None),
    ("a value is taken while others read it", "graph/frame.h",
     "if (!map.last || frame->references() != 1)", "if (!map.last)",
     ["graph/engine.cpp", "graph/bucket.cpp", "graph/coordinator.cpp"]),
    ("a value is taken at its first reading", "graph/frame.h",
     "if (!map.last || frame->references() != 1)", "if (frame->references() != 1)",
     ["graph/engine.cpp", "graph/bucket.cpp", "graph/coordinator.cpp"]),
    ("nothing given opens nothing", "graph/split.cpp", "if (opens_ || taken > 1)",
     "if (taken != 0 && (opens_ || taken > 1))", None),
    ("C9 credit leaves while shares stay", "graph/split.cpp",
     "[](const Holding::Part& part) { return part.rest.width == 0; }",
     "[](const Holding::Part&) { return true; }", None),
    ("C10 a call is not forgotten", "graph/engine_lost.cpp",
     "  if (!calls_.contains(message.call)) return;\n", "  if (message.call) return;\n", None),
    ("C11 what depends on a dead join waits", "graph/engine.cpp",
     "    splitter_.settle(scope->outer, collector.outer,",
     "    if (false)\n    splitter_.settle(scope->outer, collector.outer,", None),
    ("C11 a join fires with a field missing", "graph/engine.cpp", "if (filled != all) {",
     "if (filled == 0) {", None),
    ("a join that lost a field is not told", "graph/engine.cpp",
     "if (filled != 0) notice.lost =", "if (false) notice.lost =", None),
    ("a join that ran is told as lost", "graph/missing.cpp",
     "if (one.lacks && (node == nullptr || !node->ran))", "if (one.lacks)", None),
    ("a node that yields nothing is not told", "graph/engine.cpp",
     "if (!failure && (node_.read & ~record->yielded) != 0 && ", "if (false && ", None),
    ("C12 what is left is settled twice", "graph/split.cpp",
     "      effects.messages.push_back(message);\n    }\n    part.rest = Share{};",
     "      effects.messages.push_back(message);\n      Message* again = pools_.new_message("
     "Message::Kind::settled, collector.owner,\n          holding.call, holding.session);\n"
     "      again->target = collector.id;\n      again->shares.resize(1);\n      again->shares[0] = message->shares[0];\n"
     "      effects.messages.push_back(again);\n    }\n    part.rest = Share{};", None),
    ("C13 a loop turns once more", "graph/engine_loops.cpp", "if (turn < std::min",
     "if (turn <= std::min", None),
    ("C13 turns are not counted", "graph/engine.cpp",
     "if (node_.loop_index != none) ++frame->iterations[node_.loop_index];", "", None),
    ("C14 a count fires one too early", "graph/bucket.cpp", "counts_[i].came < counts_[i].wanted",
     "counts_[i].came + 1 < counts_[i].wanted", None),
    ("C14 the wrong frames are taken", "graph/bucket.cpp",
     "  if (group.by_path)\n    std::ranges::sort", "  if (false)\n    std::ranges::sort",
     None),
    ("C15 a session's calls run together", "graph/coordinator.cpp",
     "plan_.calls == CallMode::overlap || alone", "true", None),
    ("C16 cancelled roles are not told", "graph/engine_lost.cpp",
     "      effects.cancels.push_back({node_.id, {record->index, record->generation}});\n",
     "      {}\n", None),
    ("C16 a failed call has no deadline", "graph/coordinator.cpp",
     "!(*call)->cancelled && !(*call)->aborting) return due_", "!(*call)->failure && "
     "!(*call)->aborting) return due_", None),
    ("C17 something besides the seed decides", "runtime/sim/cluster.cpp",
     "* random_.uniform()));", "* random_.uniform())) + std::chrono::nanoseconds([] {"
     " static int n = 0; return ++n % 97; }());", None),
    ("an abort leaves buckets", "graph/engine_lost.cpp",
     "if (is_given_up(key.call)) scopes.push_back(key);", "(void)key;", None),
    ("a lost node is waited for", "graph/coordinator.cpp",
     "if (node.id == entry_node || is_away(node.id, id)) continue;\n"
     "    call.pending", "if (node.id == entry_node) continue;\n    call.pending", None),
    ("late messages reach a new engine", "graph/engine_lost.cpp", "aborted_[call] = 0;", "(void)call;",
     None),
    ("an aborting engine does not answer", "graph/engine.cpp", "left != nullptr && --*left == 0",
     "left != nullptr && --*left == 1", None),
    ("C18 a life that is over is heard", "runtime/membership.h",
     "return known.there && known.incarnation == life.incarnation;",
     "return known.there || life.incarnation > 0;", ["runtime/sim/network.cpp"]),
    ("C19 what a lost home started goes on", "graph/engine_lost.cpp",
     "    splitter_.abandon(record->holding);\n"
     "    effects.cancels.push_back({node_.id, {record->index, record->generation}});",
     "    splitter_.abandon(record->holding);", None),
    ("C10 what a lost home collected stays", "graph/engine_lost.cpp", "  drop(gone);\n", "", None),
    ("C10 calls of a home's earlier life are served", "graph/engine.h",
     ": call.home.incarnation < floor.home.incarnation;", ": false;",
     ["graph/engine.cpp", "graph/engine_lost.cpp"]),
    ("C20 a link that was cut begins too late", "runtime/link.h", "applied(number);\n    for (std::size_t i = 0;",
     "applied(number + 1);\n    for (std::size_t i = 0;", ["runtime/sim/network.cpp"]),
    ("C20 a link stays dumb when the way back heals", "runtime/sim/network.cpp",
     "  if (!link_at(back).connected && !link_at(back).cut) connect(back, now);\n", "  (void)back;\n", None),
    ("C22 anybody gives orders in anybody's calls", "runtime/wire/contract.cpp",
     'return call.home == from ? "" : "an order that only the call\'s home gives";', 'return "";', None),
    ("C22 anybody sends another's frames", "runtime/wire/contract.cpp",
     'return own ? "" : "a frame of a node that is not the sender\'s";', 'return "";', None),
    ("C22 shares are settled by whoever says so", "runtime/wire/contract.cpp",
     'return may_hold(message.target, from, call) ? "" :', 'return true ? "" :', None),
    ("C22 the sender is not asked for", "runtime/wire/decode.cpp",
     "if (sender_ != nullptr && reader_.ok())\n      refuse(sender_->contract.head_problem",
     "if (false)\n      refuse(sender_->contract.head_problem", None),
    ("C10 a hostile home's calls stay when it goes", "graph/engine_lost.cpp", "  raise_floor({home.machine, home.incarnation + 1}, 0);\n",
     "", None),
    ("C23 what waits in a bucket keeps its bytes", "runtime/windows.cpp",
     "if (in_hand_[node] == 0 || plan_.nodes[node].queue_max != 0) give_back(edge, taken, true);", "",
     None),
    ("C23 every edge may stop its producer", "runtime/windows.cpp",
     "order.rank(graph.places[edge.from]) < order.rank(graph.places[edge.to]));", "true);", None),
    ("C23 nodes of one executor are taken for strangers", "runtime/windows.cpp",
     "node.id == entry_node ? 0 : node.executor", "node.id", None),
    ("C23 what came back is told too late", "runtime/windows.cpp",
     "taken.back < window_ / told_parts", "taken.back < window_ * told_parts", None),
    ("C24 roles yield into a full window", "runtime/sim/simulation.cpp",
     "if (!at_end && !cluster_.may_yield(node, machine_of(running.start))) return stop(index);", "", None),
    ("C24 a window of what has left is not full", "runtime/windows.h",
     "return sent.bytes >= window_;", "return sent.bytes >= 2 * window_ + 600;",
     ["runtime/windows.cpp"]),
    ("C24 calls start into a full window", "graph/coordinator.cpp", "  if (waits_for_starts_ && first_away(id) == entry_node)\n",
     "  if (false)\n", None),
    ("C25 bytes are told twice", "runtime/windows.cpp", "std::exchange(taken.back, 0)", "taken.back",
     None),
    ("C25 a life begins with what the last one was owed", "runtime/windows.cpp",
     "      sent.bytes = 0;\n", "", None),
    ("C26 a call too many is let in", "graph/coordinator.cpp", "std::cmp_greater_equal(calls_.size()",
     "std::cmp_greater(calls_.size()", None),
    ("C26 a call is refused too soon", "graph/coordinator.cpp", "std::cmp_greater_equal(calls_.size()",
     "std::cmp_greater_equal(calls_.size() + 1", None),
    ("C27 the newest is dropped", "graph/engine_full.cpp", "std::ranges::min_element(",
     "std::ranges::max_element(", None),
    ("C27 where there is no order the newest is dropped", "graph/engine_full.cpp",
     "auto oldest = call.waiting.begin();", "auto oldest = call.waiting.end() - 1;", None),
    ("C27 one more waits than may", "graph/engine_full.cpp",
     "while (call.waiting.size() > node_.queue_max) {",
     "while (call.waiting.size() > node_.queue_max + 1) {", None),
    ("C27 a frame is dropped while the queue has room", "graph/engine_full.cpp",
     "while (call.waiting.size() > node_.queue_max) {",
     "while (call.waiting.size() >= node_.queue_max) {", None),
    ("C27 nobody hears of a drop", "graph/engine_full.cpp", "    warn_stopped(record,\n",
     "    if (false)\n    warn_stopped(record,\n", None),
    ("C9 what is dropped keeps its credit", "graph/engine_full.cpp",
     "    splitter_.end(record.holding, nullptr, effects);\n", "", None),
    ("C9 what waits is never begun", "graph/engine_full.cpp",
     "while (call.running < node_.at_once() && !call.waiting.empty()) {", "while (false) {", None),
    ("what is dropped keeps its place in the order", "graph/engine_full.cpp",
     "if (node_.order != none) call.queue.skip(oldest->place, record.index);", "", None),
    ("C10 a queue without order is not forgotten", "graph/coordinator.cpp",
     "node.order != none || node.queue_max != 0 ||", "node.order != none ||", None),
    ("C27 the next set begins when one replica is free", "graph/engine_full.cpp",
     "while (call.running < node_.at_once() &&", "while (call.running < node_.at_once() * node_.fan_out() &&",
     None),
    ("C28 a replica is left out", "graph/engine.cpp", "replica + 1 < fan_out; ++replica) {",
     "replica + 2 < fan_out; ++replica) {", None),
    ("C1 two activations of a set go to one replica", "graph/engine.cpp",
     "    run(record, fan_out - 1, effects);", "    run(record, 0, effects);", None),
    ("C5 the first replica stands last", "graph/split.cpp",
     "    part = {Share{rest.rest.scope, rest.rest.begin, width}, width, 0};\n    rest.rest.begin += width;\n",
     "    part = {Share{rest.rest.scope, rest.rest.begin + rest.rest.width - width, width}, width, 0};\n",
     None),
    ("C9 each replica has all of the credit", "graph/split.cpp",
     "take_credit(to, holding.credit.take(holding.credit.amount / left));",
     "take_credit(to, holding.credit);", None),
    ("what a count's replicas open has one number", "graph/split.cpp",
     "scope->sequence = part.rest.scope->sequence + 1;", "scope->sequence = part.rest.scope->sequence;",
     None),
    ("the paths of all replicas but the last are one", "graph/engine_fork.cpp",
     "{node_.fan_out() - left, 0}", "{0, 0}", None),
    ("C29 nodes of one role are on machines of their own", "graph/replicas.h",
     "return machines(node)[index(unit(node), number)];", "return machines(node)[index(unit(node), number + node)];",
     ["graph/coordinator.cpp", "runtime/wire/contract.cpp", "runtime/sim/cluster.cpp", "runtime/sim/simulation.cpp",
      "runtime/sim/hostile.cpp"]),
    ("C30 a session goes where there is room", "graph/replica_choice.cpp",
     "if (known != nullptr && !unit.machines[*known].away) return *known;", "if (false) return *known;", None),
    ("C31 all machines of a role are away together", "graph/replica_choice.cpp",
     "if (replicas_.units()[i].machines[at] == machine) {", "{", None),
    ("C31 a machine that is lost gets calls", "graph/replica_choice.cpp",
     "void ReplicaChoice::machine_lost(std::uint32_t machine) { mark(machine, true); }",
     "void ReplicaChoice::machine_lost(std::uint32_t) {}", None),
    ("C31 calls end for a machine that they do not use", "graph/coordinator.cpp",
     "return !replicas.has(away.node) || away.machine == replicas.machine(away.node, id);",
     "return !replicas.has(away.node) || id != 0;", None),
    ("C21 a frame brings the moment of its birth", "runtime/wire/encode.cpp",
     "std::clamp(now_ - frame.born, Instant{}", "std::clamp(frame.born, Instant{}", None),
    ("C21 a call's own deadline comes early", "graph/coordinator.cpp",
     "call.deadline = now + call.allowed;", "call.deadline = now + call.allowed / 2;", None),
    ("a scope's name lacks its machine's life", "runtime/wire/decode.cpp",
     "scope->id.origin = read_origin(\"a scope's machine\");",
     "scope->id.origin = {read_origin(\"a scope's machine\").machine, 1};", None),
    ("a count does not wait for its deposit", "graph/engine.cpp",
     "  if (!call.count.deposit()) {\n", "  if (!call.count.deposit() && ended) {\n", None),
    ("joins close in declaration order", "graph/routes.cpp",
     "[&](CollectorId id) { return plan_.collectors[id].rank; }", "[](CollectorId id) { return id; }",
     None),
    ("roots are always the entry", "graph/collectors.cpp",
     "root = root == none ? from : dominators.nearest_common(root, from);",
     "root = root == none ? from : (from == root ? root : entry_node);", None),
    ("yields overlap", "graph/split.cpp", "const int shift = 2 * block + 1;",
     "const int shift = 2 * block;", None),
    ("one field of several nodes is no join", "graph/collectors.cpp",
     "} else if (group.edges.size() >= 2) {",
     "} else if (group.edges.size() >= 2 && group.fields.size() >= 2) {", None),
    ("a count is ready when two of its fields are", "graph/bucket.cpp",
     "  for (std::size_t i = 0; i < counts_.size(); ++i) {\n    frames += counts_[i].came;",
     "  for (std::size_t i = 0; i < counts_.size() && i < 2; ++i) {\n    frames += counts_[i].came;",
     None),
    ("yields overlap from the eighth on", "graph/split.cpp", "const int shift = 2 * block + 1;",
     "const int shift = block < 3 ? 2 * block + 1 : 1;", None),
    ("credit forgets how fine it is", "graph/credit.h", "+ more.amount, coarse.scale + apart};",
     "+ more.amount, coarse.scale};", ["graph/engine.cpp", "graph/split.cpp", "graph/coordinator.cpp"]),
]


def bound() -> None:
    """Memory, and the processor's time rather than the clock's: `./test` runs this where there is time left."""
    planted.bound_memory()
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))


def passes(command: list[str]) -> bool:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                          preexec_fn=bound) as process:
        try:
            return process.wait(timeout=900) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def judge(sluice: str, _) -> tuple[bool, str]:
    """A few workflows and seeds first: most mutants are killed by them."""
    def compare(count: int) -> list[str]:
        return [f"{HERE}/../semantics/compare.py", sluice, "--count", str(count), "--seed", "7"]

    def hunt(seeds: int) -> list[str]:
        return [f"{HERE}/hunt.py", sluice, "--workflows", "80", "--seeds", str(seeds), "--seed", "77", "--jobs", "1",
                "--least", "0" if seeds < 400 else "100"]
    looks = compare(40), hunt(24), compare(240), hunt(404)
    return not all(passes([sys.executable, *look]) for look in looks), ""


if __name__ == "__main__":
    sys.exit(planted.main(MUTANTS, "sluice", judge, jobs=2))
