#include "cli/progress_line.h"

#include <catch2/catch.hpp>

namespace sluice::cli {
namespace {

using std::chrono::seconds;

constexpr ProgressLine::Time start{};
const std::string gone = "\r\033[K";

TEST_CASE("What takes two seconds is shown, with how long it has taken") {
  ProgressLine line(true, true, start);
  CHECK(line.tick(start + seconds(5)).empty());  // nothing was begun
  line.begin("loading", start + seconds(5));
  CHECK(line.tick(start + seconds(6)).empty());
  CHECK(line.tick(start + seconds(7)) == gone + "loading, 2 s");
  CHECK(line.tick(start + seconds(8)) == gone + "loading, 3 s");
  CHECK(line.end() == gone);
  CHECK(line.end().empty());
}

TEST_CASE("On one terminal an unfinished answer is never split") {
  ProgressLine line(true, true, start);
  line.begin("running", start);
  CHECK(line.tick(start + seconds(2)) == gone + "running, 2 s");
  CHECK(line.before("the ") == gone);  // the progress goes away before the answer stands there
  CHECK(line.tick(start + seconds(9)).empty());
  CHECK(line.before("").empty());  // nothing was said
  CHECK(line.tick(start + seconds(9)).empty());
  CHECK(line.before("end\n").empty());
  CHECK(line.tick(start + seconds(10)) == gone + "running, 10 s");
}

TEST_CASE("In one file progress has lines of its own, and none within an answer's") {
  ProgressLine line(false, true, start);
  line.begin("running", start);
  CHECK(line.tick(start + seconds(2)) == "running, 2 s\n");
  CHECK(line.before("the ").empty());
  CHECK(line.tick(start + seconds(30)).empty());
  CHECK(line.before("end\n").empty());
  CHECK(line.tick(start + seconds(31)) == "running, 31 s\n");
  CHECK(line.tick(start + seconds(38)).empty());
  CHECK(line.tick(start + seconds(39)) == "running, 39 s\n");
  CHECK(line.end().empty());
}

TEST_CASE("An answer that goes elsewhere does not hold progress back") {
  ProgressLine line(true, false, start);
  line.begin("running", start);
  CHECK(line.before("the ").empty());
  CHECK(line.tick(start + seconds(2)) == gone + "running, 2 s");
  CHECK(line.before("end").empty());
  CHECK(line.end() == gone);
}

}  // namespace
}  // namespace sluice::cli
