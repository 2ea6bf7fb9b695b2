// A plan as boxes and arrows, before any drawing language: what SVG, DOT and Mermaid show alike.
//
// Each arrow into a node's box is one of its OR groups. What a join or a count collects goes into a
// gate first, which needs all of it, and one arrow leads from the gate to the box. Private to
// graph/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/plan.h"

namespace sluice {

struct Picture {
  struct Box {
    enum class Kind : std::uint8_t { inputs, node, gate, output } kind = Kind::node;
    std::string id;                  // a word, unique in the picture
    std::vector<std::string> lines;  // the first is the title
    bool ordered = false;            // runs one at a time per session, in logical order
  };
  struct Arrow {
    std::size_t from = 0;  // index of a box
    std::size_t to = 0;
    std::string label;       // the fields it carries
    bool collected = false;  // into a gate, where it waits for the others
  };
  std::vector<Box> boxes;  // the inputs, the nodes in their order, the gates, the outputs
  std::vector<Arrow> arrows;
};

Picture picture_of(const Plan& plan);

struct CarriedField {
  std::uint16_t field = 0;  // index in the producer's outputs
  bool counts = false;      // only says how many frames a count takes
};
/// What an edge carries: each field once, as the file names them; numbers of counts behind them.
std::vector<CarriedField> carried_by(const Plan& plan, const Edge& edge);

/// "condition: 3", "condition: parse.pictures" or "condition: all".
std::string count_text(const Plan& plan, const PlanGroup& group, const PlanCount& count);

}  // namespace sluice
