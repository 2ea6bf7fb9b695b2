// A file with every character changed, left out, and others put in front of it: what is said of it,
// and where. A slip of the hand is what a parser's own words explain worst.
#include <array>
#include <catch2/catch.hpp>

#include "tests/journal.h"
#include "tests/outcomes.h"
#include "workflows/yaml_reader.h"
#include "workflows/yaml_tree.h"

namespace sluice {
namespace {

constexpr const char* sound = R"(# 'A comment' of {one line
workflow: "a \"b\" # c"  # said
inputs: { x: text, y: [ image, { z: "w" } ] }
list:
  - a: 'it''s'
    b: -2
  -   - deep
      - - deeper
        - y
text: one
  two
äöü: { run: vit.encode,
         inputs: [ { x: "ä" } ] }
nodes:
  hear:
    outputs:
    - q
    -   b: 1
        c: 2
)";

constexpr auto typed =
    std::to_array<std::string_view>({"'",        "\"",     "{",       "}",
                                     "[",        "]",      ":",       ": ",
                                     "-",        "- ",     "#",       " #",
                                     ",",        "\t",     "\n",      "\r",
                                     " ",        "  ",     "\n\n ",   "&a ",
                                     "*a",       "!t ",    "|",       ">",
                                     "%",        "@",      "`",       "?",
                                     "? ",       "\\",     "$",       "${",
                                     "<<: ",     "---\n",  "\n...\n", "\n<<<<<<< x\n",
                                     "\x01",     "\x7f",   "\xff",    "ä",
                                     "\u00a0",   "\u202f", "\u3000",  "\n>>>>>>> x\n",
                                     "=======\n"});

class Files {
 public:
  void read(const std::string& title, const std::string& text) {
    Diagnostics diagnostics;
    read_yaml(text, diagnostics);
    std::string words;
    for (const Diagnostic& d : diagnostics) {
      words += d.code + ": " + d.message + " [" + d.suggestion + "]\n";
      places_.push_back(std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + "+" +
                        std::to_string(d.mark.length) + " " + d.message);
    }
    if (!is_readable(diagnostics)) words += "no YAML at all";
    outcomes_.add(title, diagnostics.empty() ? "it is read" : words);
  }
  /// All texts that one slip in the sample makes, in the order of its characters.
  void change(const std::string& sample) {
    for (std::size_t at = 0; at <= sample.size(); ++at) {
      const std::string before = sample.substr(0, at), behind = sample.substr(at);
      for (const std::string_view put : typed) {
        read("put in", before + std::string(put) + behind);
        if (put.size() == 1 && !behind.empty())
          read("in its place", before + std::string(put) + behind.substr(1));
      }
      read("the text up to a place", before);
      if (behind.empty()) continue;
      read("left out", before + behind.substr(1));
      read("twice", before + behind[0] + behind);
      read("a zero byte", before + '\0' + behind);
    }
    outcomes_.add("places", test::digest_of(places_));
  }
  void require_as_kept() const { outcomes_.require_as_kept(); }

 private:
  test::Outcomes outcomes_{"yaml_slips"};
  std::vector<std::string> places_;
};

std::string nested(std::size_t depth) {
  return "a: " + std::string(depth, '[') + std::string(depth, ']') + "\n";
}

std::string of_values(std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) text += "1,";
  return text + "]";
}

}  // namespace

TEST_CASE("each slip of the hand in a file is explained, at its place, as before") {
  Files files;
  files.change(sound);
  for (const std::size_t depth : {61U, 62U, 63U, 64U, 65U, 66U}) files.read("depth", nested(depth));
  for (const std::size_t count : {99'998U, 99'999U, 100'000U, 100'001U})
    files.read("values", of_values(count));
  for (const std::size_t more : {0U, 1U})
    files.read("bytes", std::string(yaml_bytes_max + more - 2, ' ') + "a\n");
  for (const char* text : {"\xef\xbb\xbf"
                           "a: 1\n",
                           "\xff\xfe", "\xfe\xff", "a: &b c", "a: 1\n---\nb: 2\n", "a: 1\na: 2\n",
                           "~: 1\n", "[a]: 1\n", "'<<': 1\n", "<<: 1\n", "\"a b\": 'x", "a: \"x\n"})
    files.read("whole files", text);
  files.require_as_kept();
}

}  // namespace sluice
