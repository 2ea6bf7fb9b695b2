// A plan as a picture: nodes in columns from left to right, edges as curves, loops as arcs below.
#include <algorithm>
#include <cstdint>

#include "graph/print.h"

namespace sluice {

namespace {

constexpr int box_height = 34;
constexpr int row_height = 64;
constexpr int letter_width = 8;
constexpr int column_gap = 110;
constexpr int margin = 24;

/// What is drawn: a node, or (after all nodes) an output.
struct Box {
  std::string name;
  std::size_t column = 0;
  int x = 0;
  int y = 0;
  int width = 0;
};

class Drawing {
 public:
  explicit Drawing(const Plan& plan) : plan_(plan) {
    for (const PlanNode& node : plan.nodes) boxes_.push_back({node.name, 0, 0, 0, 0});
    for (const PlanOutput& output : plan.outputs) boxes_.push_back({output.name, 0, 0, 0, 0});
    find_columns();
    place();
  }

  std::string svg() const {
    std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                       std::to_string(width_) + "\" height=\"" + std::to_string(height_) +
                       "\" font-family=\"sans-serif\" font-size=\"13\">\n"
                       "<title>" +
                       plan_.workflow +
                       "</title>\n<defs><marker id=\"tip\" "
                       "viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
                       "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker>"
                       "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    for (const Edge& edge : plan_.edges) text += edge_svg(edge);
    for (std::size_t i = 0; i < boxes_.size(); ++i) text += box_svg(i);
    return text + "</svg>\n";
  }

 private:
  std::size_t target(const Edge& edge) const {
    return edge.is_output() ? plan_.nodes.size() + edge.group : edge.to;
  }

  /// The longest way from the entry, edges that close a loop left out.
  void find_columns() {
    enum class Mark : std::uint8_t { fresh, open, done };
    std::vector<Mark> marks(plan_.nodes.size(), Mark::fresh);
    std::vector<std::size_t> order;
    back_.assign(plan_.edges.size(), false);
    for (const PlanNode& start : plan_.nodes) {
      if (marks[start.id] != Mark::fresh) continue;
      std::vector<std::pair<NodeId, std::size_t>> stack{{start.id, 0}};
      marks[start.id] = Mark::open;
      while (!stack.empty()) {
        const auto [node, next] = stack.back();
        if (next == plan_.nodes[node].edges.size()) {
          marks[node] = Mark::done;
          order.push_back(node);
          stack.pop_back();
          continue;
        }
        ++stack.back().second;
        const Edge& edge = plan_.edges[plan_.nodes[node].edges[next]];
        if (edge.is_output()) continue;
        if (marks[edge.to] == Mark::open) back_[edge.id] = true;
        if (marks[edge.to] != Mark::fresh) continue;
        marks[edge.to] = Mark::open;
        stack.emplace_back(edge.to, 0);
      }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it)
      for (const EdgeId id : plan_.nodes[*it].edges)
        if (!back_[id]) {
          std::size_t& column = boxes_[target(plan_.edges[id])].column;
          column = std::max(column, boxes_[*it].column + 1);
        }
  }

  void place() {
    std::vector<std::vector<std::size_t>> columns;
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      columns.resize(std::max(columns.size(), boxes_[i].column + 1));
      columns[boxes_[i].column].push_back(i);
    }
    int x = margin;
    for (std::vector<std::size_t>& column : columns) {
      std::ranges::stable_sort(column, {}, [&](std::size_t i) { return wish(i); });
      int widest = 0;
      int y = margin;
      for (const std::size_t i : column) {
        Box& box = boxes_[i];
        box.width = static_cast<int>(box.name.size()) * letter_width + 24;
        box.x = x;
        box.y = y;
        y += row_height;
        widest = std::max(widest, box.width);
      }
      height_ = std::max(height_, y + margin);
      x += widest + column_gap;
    }
    width_ = x - column_gap + 3 * margin;
  }

  /// The mean height of what comes before it.
  int wish(std::size_t box) const {
    int sum = 0;
    int count = 0;
    for (const Edge& edge : plan_.edges) {
      if (target(edge) != box || back_[edge.id]) continue;
      sum += boxes_[edge.from].y;
      ++count;
    }
    return count == 0 ? 0 : sum / count;
  }

  static std::string point(int x, int y) { return std::to_string(x) + " " + std::to_string(y); }

  std::string edge_svg(const Edge& edge) const {
    const Box& from = boxes_[edge.from];
    const Box& to = boxes_[target(edge)];
    const int y0 = from.y + box_height / 2;
    const int y1 = to.y + box_height / 2;
    const int x0 = from.x + from.width;
    std::string path = "M" + point(x0, y0) + " C" + point(x0 + 50, y0) + " " +
                       point(to.x - 50, y1) + " " + point(to.x, y1);
    if (back_[edge.id]) {
      const int low = std::max(y0, y1) + row_height;
      path = "M" + point(x0, y0) + " C" + point(x0 + 60, low) + " " + point(to.x - 60, low) + " " +
             point(to.x, y1);
    }
    const bool waits = !edge.direct && !edge.is_output();
    std::string label;
    for (const FieldMap& map : edge.fields)
      label += (label.empty() ? "" : ", ") + plan_.nodes[edge.from].outputs[map.from];
    const auto& siblings = plan_.nodes[edge.from].edges;
    const auto rank = static_cast<int>(std::ranges::find(siblings, edge.id) - siblings.begin());
    return "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + (waits ? "#2255cc" : "#333") +
           "\" marker-end=\"url(#tip)\"><title>" + from.name + " to " + to.name + ": " + label +
           "</title></path>\n<text x=\"" + std::to_string(x0 + 8) + "\" y=\"" +
           std::to_string(y0 + 11 * rank - 4) + "\" font-size=\"10\" fill=\"#666\">" + label +
           "</text>\n";
  }

  std::string box_svg(std::size_t i) const {
    const Box& box = boxes_[i];
    const bool node = i > 0 && i < plan_.nodes.size();
    const bool ordered = node && plan_.nodes[i].order != none;
    return "<rect x=\"" + std::to_string(box.x) + "\" y=\"" + std::to_string(box.y) +
           "\" width=\"" + std::to_string(box.width) + "\" height=\"" + std::to_string(box_height) +
           "\" rx=\"" + (node ? "6" : "17") + "\" fill=\"" +
           (ordered ? "#e8f0ff"
            : node  ? "#ffffff"
                    : "#f2f2f2") +
           "\" stroke=\"#333\"/>\n<text x=\"" + std::to_string(box.x + box.width / 2) + "\" y=\"" +
           std::to_string(box.y + 21) + "\" text-anchor=\"middle\">" + box.name + "</text>\n";
  }

  const Plan& plan_;
  std::vector<Box> boxes_;
  std::vector<bool> back_;  // by edge: closes a loop
  int width_ = 0;
  int height_ = 0;
};

}  // namespace

std::string plan_svg(const Plan& plan) { return Drawing(plan).svg(); }

}  // namespace sluice
