// A plan as a picture: boxes in columns from left to right, arrows as curves, loops as arcs below.
#include <algorithm>
#include <cstdint>

#include "graph/print.h"
#include "graph/print_picture.h"

namespace sluice {

namespace {

constexpr int title_width = 8;  // of a letter
constexpr int line_width = 6;
constexpr int line_height = 13;
constexpr int row_gap = 30;
constexpr int column_gap = 110;
constexpr int margin = 24;
constexpr std::size_t passages_max = 20'000;  // beyond, arrows run straight

/// Where a box stands, or where a long arrow passes a column between its ends.
struct Place {
  std::size_t column = 0;
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

class Drawing {
 public:
  explicit Drawing(const Plan& plan) : title_(plan.workflow), picture_(picture_of(plan)) {
    places_.resize(picture_.boxes.size());
    leaving_.resize(picture_.boxes.size());
    for (std::size_t i = 0; i < picture_.arrows.size(); ++i)
      leaving_[picture_.arrows[i].from].push_back(i);
    find_columns();
    for (std::size_t i = 0; i < places_.size(); ++i) size(i);
    add_passages();
    place();
  }

  std::string svg() const {
    std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                       std::to_string(width_) + "\" height=\"" + std::to_string(height_) +
                       "\" font-family=\"sans-serif\" font-size=\"13\">\n"
                       "<title>" +
                       title_ +
                       "</title>\n<defs><marker id=\"tip\" "
                       "viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
                       "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker>"
                       "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    for (std::size_t i = 0; i < picture_.arrows.size(); ++i) text += arrow_svg(i);
    for (std::size_t i = 0; i < picture_.boxes.size(); ++i) text += box_svg(i);
    return text + "</svg>\n";
  }

 private:
  /// The longest way from the inputs, arrows that close a loop left out.
  void find_columns() {
    enum class Mark : std::uint8_t { fresh, open, done };
    std::vector<Mark> marks(picture_.boxes.size(), Mark::fresh);
    std::vector<std::size_t> order;
    back_.assign(picture_.arrows.size(), false);
    for (std::size_t start = 0; start < marks.size(); ++start) {
      if (marks[start] != Mark::fresh) continue;
      std::vector<std::pair<std::size_t, std::size_t>> stack{{start, 0}};
      marks[start] = Mark::open;
      while (!stack.empty()) {
        const auto [box, next] = stack.back();
        if (next == leaving_[box].size()) {
          marks[box] = Mark::done;
          order.push_back(box);
          stack.pop_back();
          continue;
        }
        ++stack.back().second;
        const std::size_t arrow = leaving_[box][next];
        const std::size_t to = picture_.arrows[arrow].to;
        if (marks[to] == Mark::open) back_[arrow] = true;
        if (marks[to] != Mark::fresh) continue;
        marks[to] = Mark::open;
        stack.emplace_back(to, 0);
      }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it)
      for (const std::size_t arrow : leaving_[*it])
        if (!back_[arrow]) {
          std::size_t& column = places_[picture_.arrows[arrow].to].column;
          column = std::max(column, places_[*it].column + 1);
        }
  }

  void size(std::size_t i) {
    const Picture::Box& box = picture_.boxes[i];
    int width = static_cast<int>(box.lines[0].size()) * title_width;
    for (const std::string& line : box.lines)
      width = std::max(width, static_cast<int>(line.size()) * line_width);
    places_[i].width = width + 24;
    places_[i].height = 21 + line_height * static_cast<int>(box.lines.size());
  }

  /// A long arrow gets a place of its own in each column that it passes, so that it runs between
  /// the boxes.
  void add_passages() {
    ways_.resize(picture_.arrows.size());
    for (std::size_t i = 0; i < picture_.arrows.size(); ++i) {
      const Picture::Arrow& arrow = picture_.arrows[i];
      ways_[i].push_back(arrow.from);
      for (std::size_t column = places_[arrow.from].column + 1;
           !back_[i] && column < places_[arrow.to].column && places_.size() < passages_max;
           ++column) {
        ways_[i].push_back(places_.size());
        places_.push_back({column, 0, 0, 0, 0});
      }
      ways_[i].push_back(arrow.to);
    }
  }

  void place() {
    std::vector<std::vector<std::size_t>> columns;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      columns.resize(std::max(columns.size(), places_[i].column + 1));
      columns[places_[i].column].push_back(i);
    }
    std::vector<std::vector<std::size_t>> before(places_.size());
    for (std::size_t i = 0; i < ways_.size(); ++i)
      for (std::size_t step = 1; step < ways_[i].size() && !back_[i]; ++step)
        before[ways_[i][step]].push_back(ways_[i][step - 1]);
    int x = margin;
    for (std::vector<std::size_t>& column : columns) {
      std::ranges::stable_sort(column, {}, [&](std::size_t i) { return wish(before[i]); });
      int widest = 0;
      int y = margin;
      for (const std::size_t i : column) {
        places_[i].x = x;
        places_[i].y = y;
        y += places_[i].height + row_gap;
        widest = std::max(widest, places_[i].width);
      }
      for (const std::size_t i : column)
        if (i >= picture_.boxes.size()) places_[i].width = widest;
      height_ = std::max(height_, y);
      x += widest + column_gap;
    }
    width_ = x - column_gap + 3 * margin;
    low_ = height_;
    for (const bool back : back_) height_ += back ? row_gap : 0;
  }

  /// The mean height of what comes before.
  int wish(const std::vector<std::size_t>& before) const {
    if (before.empty()) return 0;
    long sum = 0;
    for (const std::size_t i : before) sum += places_[i].y + places_[i].height / 2;
    return static_cast<int>(sum / static_cast<long>(before.size()));
  }

  static std::string point(int x, int y) { return std::to_string(x) + " " + std::to_string(y); }

  /// Curves from place to place; a loop goes back below everything.
  std::string path_of(std::size_t arrow) const {
    const auto middle = [&](std::size_t i) { return places_[i].y + places_[i].height / 2; };
    const auto right = [&](std::size_t i) { return places_[i].x + places_[i].width; };
    const std::vector<std::size_t>& way = ways_[arrow];
    std::string path = "M" + point(right(way[0]), middle(way[0]));
    if (back_[arrow]) {
      const auto rank =
          std::ranges::count(back_.begin(), back_.begin() + static_cast<long>(arrow), true);
      const int low = low_ + row_gap * static_cast<int>(rank);
      const int x0 = right(way[0]);
      const int x1 = places_[way[1]].x;
      return path + " C" + point(x0 + 60, middle(way[0])) + " " + point(x0 + 60, low) + " " +
             point(x0, low) + " L" + point(x1, low) + " C" + point(x1 - 60, low) + " " +
             point(x1 - 60, middle(way[1])) + " " + point(x1, middle(way[1]));
    }
    for (std::size_t step = 1; step < way.size(); ++step) {
      const int x0 = right(way[step - 1]);
      const int x1 = places_[way[step]].x;
      path += " C" + point(x0 + 50, middle(way[step - 1])) + " " +
              point(x1 - 50, middle(way[step])) + " " + point(x1, middle(way[step]));
      if (step + 1 < way.size()) path += " L" + point(right(way[step]), middle(way[step]));
    }
    return path;
  }

  std::string arrow_svg(std::size_t i) const {
    const Picture::Arrow& arrow = picture_.arrows[i];
    const Place& from = places_[arrow.from];
    const int y0 = from.y + from.height / 2;
    const int x0 = from.x + from.width;
    std::string text = "<path d=\"" + path_of(i) + "\" fill=\"none\" stroke=\"" +
                       (arrow.collected ? "#2255cc" : "#333") + "\" marker-end=\"url(#tip)\"/>\n";
    if (arrow.label.empty()) return text;
    const auto& siblings = leaving_[arrow.from];
    const auto rank = static_cast<int>(std::ranges::find(siblings, i) - siblings.begin());
    return text + "<text x=\"" + std::to_string(x0 + 8) + "\" y=\"" +
           std::to_string(y0 + 11 * rank - 4) + "\" font-size=\"10\" fill=\"#666\">" + arrow.label +
           "</text>\n";
  }

  std::string box_svg(std::size_t i) const {
    const Picture::Box& box = picture_.boxes[i];
    const Place& at = places_[i];
    const bool gate = box.kind == Picture::Box::Kind::gate;
    const bool node = box.kind == Picture::Box::Kind::node;
    const auto frame = [&](int inset, const char* fill) {
      return "<rect x=\"" + std::to_string(at.x + inset) + "\" y=\"" +
             std::to_string(at.y + inset) + "\" width=\"" + std::to_string(at.width - 2 * inset) +
             "\" height=\"" + std::to_string(at.height - 2 * inset) + "\" rx=\"" +
             (node   ? "6"
              : gate ? "0"
                     : "17") +
             "\" fill=\"" + fill + "\" stroke=\"" + (gate ? "#2255cc" : "#333") + "\"/>\n";
    };
    std::string text = frame(0, node || gate ? "#ffffff" : "#f2f2f2");
    if (box.ordered) text += frame(3, "#e8f0ff");
    for (std::size_t line = 0; line < box.lines.size(); ++line) {
      text += "<text x=\"" + std::to_string(at.x + at.width / 2) + "\" y=\"" +
              std::to_string(at.y + 20 + line_height * static_cast<int>(line)) +
              "\" text-anchor=\"middle\"" +
              (line > 0 || gate ? " font-size=\"10\" fill=\"#555\">" : ">") + box.lines[line] +
              "</text>\n";
    }
    return text;
  }

  std::string title_;
  Picture picture_;
  std::vector<Place> places_;                      // of the boxes, then the passages
  std::vector<std::vector<std::size_t>> leaving_;  // the arrows of each box
  std::vector<bool> back_;                         // by arrow: closes a loop
  std::vector<std::vector<std::size_t>> ways_;     // by arrow: the places from end to end
  int low_ = 0;                                    // below all boxes
  int width_ = 0;
  int height_ = 0;
};

}  // namespace

std::string plan_svg(const Plan& plan) { return Drawing(plan).svg(); }

}  // namespace sluice
