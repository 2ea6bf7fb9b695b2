// What a reader says of many inputs, beside a file that keeps it: tests/outcomes/NAME.txt.
//
// A reader of bytes or text has a limit, a word and a branch for each way in which an input can be
// wrong. Naming each in a test is as long as the reader; instead a sound sample is changed in every
// place, one at a time, and all answers are compared, word for word, with the file. A limit that
// moves by one, a check that is left out and a word that changes are another line each.
// `SLUICE_REWRITE=1` writes the files anew, for a reader to compare. Thread: one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::test {

class Outcomes {
 public:
  using Bytes = std::vector<std::byte>;

  /// `name`: of the file, without `.txt`.
  explicit Outcomes(std::string name) : name_(std::move(name)) {}

  /// What came of one input, under a title. Each line counts by itself, and equal ones are counted.
  void add(const std::string& title, const std::string& outcome);
  /// The sample as it is, each part from its begin, a byte more, and each byte one more, one less,
  /// and of other sizes. `read` says what came of it.
  void change_bytes(const std::string& title, const Bytes& sample,
                    const std::function<std::string(const Bytes&)>& read);
  /// The same for a text: each number, word or string in it as another value, and left out; each
  /// line left out, and twice; each part up to a line's end.
  void change_text(const std::string& title, const std::string& sample,
                   const std::function<std::string(const std::string&)>& read);
  /// Requires with Catch2 that all of it is what the file says.
  void require_as_kept() const;

 private:
  struct Title {
    std::string name;
    std::vector<std::string> order;  // of the outcomes, as they came first
    std::map<std::string, std::size_t> times;
  };
  std::string text() const;

  std::string name_;
  std::vector<Title> titles_;
};

}  // namespace sluice::test
