// The workflow of the codec's tests and its fuzzer: what can travel, travels in it.
#pragma once

namespace sluice::testing {

/// Joins behind joins, counts, a loop, a session node and several outputs.
inline constexpr const char* everything = R"(
sluice: 1
workflow: everything
inputs: { x: text, y: text }
roles:
  plain: { plugin: scripted, replicas: 3 }
  talk: { plugin: scripted, balance: session }
nodes:
  split: { run: plain.go, inputs: [ { x: inputs.x } ], outputs: [a, b, n] }
  left:  { run: plain.go, inputs: [ { a: split.a } ], outputs: [f] }
  right: { run: talk.go, inputs: [ { b: split.b, y: inputs.y } ], outputs: [f] }
  both:  { run: talk.go, inputs: [ { l: left.f, r: right.f } ], outputs: [f] }
  again: { run: plain.go, inputs: [ { r: both.f }, { r: turn.next } ], outputs: [f] }
  turn:  { run: plain.go, inputs: [ { f: again.f } ], outputs: [next, done] }
  late:  { run: plain.go, inputs: [ { b: both.f, d: turn.done } ], outputs: [f] }
  count:
    run: talk.go
    inputs: [ { d: turn.done, l: left.f, e: late.f } ]
    count: { d: all, l: split.n, e: 1 }
    outputs: [f]
outputs: { out: count.f, each: turn.done, back: late.f }
limits: { loop_iterations: 40 }
)";

}  // namespace sluice::testing
