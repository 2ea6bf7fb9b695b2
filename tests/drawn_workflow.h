// Workflows made by chance: joins, loops, counts, streams, sessions, deadlines and roles that share
// a lane, as YAML. Some are refused. Whoever reads them compares what came with what it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace sluice::test {

class DrawnWorkflow {
 public:
  explicit DrawnWorkflow(std::uint64_t seed) : chance_(seed) { make(); }
  const std::string& yaml() const { return yaml_; }

 private:
  std::uint64_t pick(std::uint64_t count) { return chance_.next() % count; }
  bool one_in(std::uint64_t count) { return pick(count) == 0; }

  /// A field of any node where loops are drawn, else of one before `node`.
  std::string source(std::size_t node) {
    const std::size_t most = loops_ && one_in(4) ? nodes_ : node;
    const std::size_t from = pick(most + 1);
    if (from >= nodes_ || (from == node && !loops_)) return one_in(3) ? "inputs.n" : "inputs.x";
    return "n" + std::to_string(from) + "." + (one_in(2) ? "a" : "b");
  }
  std::string sources(std::size_t node) {
    std::string first = source(node);
    if (!one_in(5)) return first;
    const std::string second = source(node);
    return second == first ? first : "[ " + first + ", " + second + " ]";
  }
  std::string group(std::size_t node, std::size_t fields) {
    std::string text = "{ ";
    for (std::size_t i = 0; i < fields; ++i)
      text +=
          (i == 0 ? "" : ", ") + std::string(1, static_cast<char>('p' + i)) + ": " + sources(node);
    return text + " }";
  }
  std::string node(std::size_t id) {
    const bool counts = one_in(6);
    const std::size_t groups = counts ? 1 : 1 + pick(5) / 3;
    const std::size_t fields = 1 + pick(6) / 3;
    std::string text = "  n" + std::to_string(id) + ": { run: r" + std::to_string(pick(roles_)) +
                       ".go, outputs: [a, b], inputs: [ ";
    for (std::size_t i = 0; i < groups; ++i)
      text += (i == 0 ? "" : ", ") + group(id, counts ? fields : 1 + pick(6) / 3);
    text += " ]";
    if (counts) {
      const char* const kinds[] = {"all", "0", "1", "2", "inputs.n"};
      text += ", count: { ";
      for (std::size_t i = 0; i < fields; ++i)
        text += (i == 0 ? "" : ", ") + std::string(1, static_cast<char>('p' + i)) + ": " +
                kinds[pick(5)];
      text += " }";
    }
    if (one_in(8)) text += ", on_error: skip";
    if (one_in(10)) text += ", deadline: " + std::to_string(1 + pick(30)) + "ms";
    if (one_in(10)) text += ", max_age: " + std::to_string(1 + pick(30)) + "ms";
    return text + " }\n";
  }
  void make() {
    nodes_ = 2 + pick(7);
    roles_ = 1 + pick(3);
    loops_ = one_in(2);
    yaml_ = "sluice: 1\nworkflow: drawn\ninputs: { x: text, n: number }\n";
    if (one_in(3)) yaml_ += "calls: overlap\n";
    if (one_in(6)) yaml_ += "on_error: cancel\n";
    if (one_in(4))
      yaml_ += "limits: { frames: " + std::to_string(1 + pick(20)) +
               ", loop_iterations: " + std::to_string(1 + pick(5)) +
               ", calls: " + std::to_string(1 + pick(4)) +
               ", deadline: " + std::to_string(5 + pick(100)) + "ms }\n";
    yaml_ += "roles:\n";
    for (std::size_t i = 0; i < roles_; ++i) {
      yaml_ += "  r" + std::to_string(i) + ": { plugin: scripted";
      const std::uint64_t how = pick(4);
      if (how == 0) yaml_ += ", replicas: " + std::to_string(2 + pick(2));
      if (how == 1) yaml_ += ", balance: session";
      if (how == 2 && i > 0) yaml_ += ", colocate: r0";
      yaml_ += " }\n";
    }
    yaml_ += "nodes:\n";
    for (std::size_t i = 0; i < nodes_; ++i) yaml_ += node(i);
    yaml_ += "outputs: { o: n" + std::to_string(nodes_ - 1) + ".a, u: " + sources(nodes_) + " }\n";
  }

  SplitMix64 chance_;
  std::size_t nodes_ = 0, roles_ = 0;
  bool loops_ = false;
  std::string yaml_;
};

}  // namespace sluice::test
