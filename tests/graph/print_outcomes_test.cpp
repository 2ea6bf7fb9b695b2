// How diagnostics are shown: letters of every kind, lines of every length, more than are shown.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/nearest.h"
#include "graph/print.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

Diagnostic found(std::uint32_t line, std::uint32_t column, std::uint32_t length,
                 Severity severity = Severity::error) {
  Diagnostic d;
  d.severity = severity;
  d.mark = {line, column, length};
  d.code = "a-code";
  d.message = "what is wrong";
  d.suggestion = "what to write";
  return d;
}

/// Every letter below 32 but the end of a line, 127, and what is no UTF-8 or no letter.
std::string letters() {
  std::string text;
  for (int c = 1; c < 32; ++c)
    if (c != '\n') text += static_cast<char>(c);
  return text + "a\x7f\xc2\x80\xc2\x9f\xc2\xa0\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\xff\xc3z\"\\/";
}

}  // namespace

TEST_CASE("letters of every kind are shown and quoted as before") {
  test::Outcomes outcomes("shown_letters");
  const std::string text = letters();
  Diagnostic d = found(2, 3, 4);
  d.message = text;
  d.suggestion = text;
  outcomes.add("a diagnostic", diagnostic_text(d, text, "first\r\n" + text + "\nlast"));
  outcomes.add("as JSON", diagnostic_json(d, text));
  outcomes.add("quoted", json_quote(text));
  for (const std::uint32_t line : {0U, 1U, 2U, 3U, 4U})
    outcomes.add("lines", diagnostic_text(found(line, 1, 3), "f", "\xef\xbb\xbfone\r\ntwo\nthree"));
  for (const std::uint32_t line : {0U, 1U, 2U})
    outcomes.add("as SARIF", diagnostics_sarif({{"f", {found(line, 1, 3)}}}));
  outcomes.require_as_kept();
}

TEST_CASE("a line is cut around its mark, and the caret stands below it") {
  test::Outcomes outcomes("shown_lines");
  for (const std::size_t size : {159U, 160U, 161U, 400U}) {
    std::string line;
    for (std::size_t i = 0; i < size; ++i) line += static_cast<char>('a' + i % 26);
    for (const std::uint32_t column : {1U, 60U, 61U, 62U, 161U, 300U, 401U})
      for (const std::uint32_t length : {0U, 2U, 200U})
        outcomes.add(std::to_string(size) + " letters",
                     diagnostic_text(found(1, column, length), "f", line));
  }
  for (const std::uint32_t column : {1U, 2U, 3U, 4U})
    outcomes.add("tabs and bytes", diagnostic_text(found(1, column, 2), "f", "\t\x01\xc3\xa4x"));
  outcomes.require_as_kept();
}

TEST_CASE("twenty diagnostics are shown, errors before warnings, in the order of the file") {
  test::Outcomes outcomes("shown_diagnostics");
  for (const std::size_t errors : {0U, 1U, 19U, 20U, 21U})
    for (const std::size_t warnings : {0U, 1U, 2U, 20U, 21U}) {
      Diagnostics all;
      for (std::uint32_t i = 0; i < std::max(errors, warnings); ++i) {
        if (i < warnings) all.push_back(found(100 - i, 1, 1, Severity::warning));
        if (i < errors) all.push_back(found(100 - i, 1, 1));
      }
      sort_diagnostics(all);
      outcomes.add(std::to_string(errors) + " errors, " + std::to_string(warnings) + " warnings",
                   diagnostics_text(all, "f", ""));
    }
  for (const std::size_t count : {diagnostics_max - 1, diagnostics_max, diagnostics_max + 1}) {
    const std::string text = diagnostics_text(Diagnostics(count, found(0, 0, 0)), "f", "");
    outcomes.add("many", text.substr(text.rfind("f: ")));
  }
  for (const std::size_t size : {64U, 65U}) {
    const std::string name(size, 'a');
    outcomes.add("near names", nearest_name(name, {name}) + " " +
                                   nearest_name("b" + name.substr(1), {name.substr(1)}));
  }
  outcomes.require_as_kept();
}

TEST_CASE("what is wrong in an included file is shown there, with the way that leads to it") {
  const IncludedFiles included{{"one.yaml", "a: 1\n", {2, 12, 8}},
                               {"two.yaml", "b: 2\nc: 3\n", {1 + included_lines, 4, 1}},
                               {"three.yaml", "d: 4\n", {3, 12, 10}}};
  const Diagnostic in_two = found(2 + 2 * included_lines, 4, 1);
  CHECK(place_text(in_two.mark, "main.yaml", included) == "two.yaml:2");
  CHECK(place_text({1 + 3 * included_lines, 1, 1}, "main.yaml", included) == "three.yaml:1");
  CHECK(place_text({5, 1, 1}, "main.yaml", included) == "main.yaml:5");
  const std::string text = diagnostic_text(in_two, "main.yaml", "", included);
  INFO(text);
  CHECK(text.starts_with("two.yaml:2:4: "));
  CHECK(text.find("  c: 3\n     ^\n") != std::string::npos);
  CHECK(text.find("one.yaml:1:4") != std::string::npos);
  CHECK(text.find("main.yaml:2:12") != std::string::npos);
  const std::string json = diagnostic_json(in_two, "main.yaml", included);
  INFO(json);
  CHECK(json.find(R"("file":"two.yaml")") != std::string::npos);
  CHECK(json.find(R"("included_from":["one.yaml:1:4","main.yaml:2:12"])") != std::string::npos);
}

}  // namespace sluice
