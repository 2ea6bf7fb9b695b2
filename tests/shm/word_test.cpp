// Words about shared memory: every place changed, and what the reader says of each.
#include "runtime/shm/word.h"

#include <catch2/catch.hpp>

#include "tests/outcomes.h"

using namespace sluice;
using namespace sluice::shm;

TEST_CASE("each place of a word about memory that is changed is refused or read, as before") {
  test::Outcomes outcomes("shm_words");
  const auto read = [](const wire::Bytes& bytes) {
    const Result<Word> word = read_word(bytes);
    if (!word.ok()) return word.error().message;
    return std::string(write_word(*word) == bytes ? "read" : "read, and written in another way");
  };
  const std::vector<std::pair<std::string, Word>> words{
      {"greeting", Greeting{{1, 2}, {3, 400}}},
      {"offer", Offer{7}},
      {"mapped", Mapped{300}},
      {"back", Back{{{1, 2, 3}, {~0U, ~0U, ~std::uint64_t{0}}}}},
      {"declined", Declined{"no"}}};
  for (const auto& [title, word] : words) outcomes.change_bytes(title, write_word(word), read);
  for (const std::size_t size : {400U, 401U}) {
    const wire::Bytes bytes = write_word(Declined{std::string(size, 'w')});
    outcomes.add("why", std::to_string(bytes.size()) + " bytes: " + read(bytes));
  }
  for (const std::size_t count : {std::size_t{0}, handles_max, handles_max + 1}) {
    Back back;
    back.handles.assign(count, {1, 1, 1});
    outcomes.add("handles", std::to_string(count) + ": " + read(write_word(back)));
  }
  for (const std::size_t size : {word_bytes_max, word_bytes_max + 1})
    outcomes.add("zeros", std::to_string(size) + ": " + read(wire::Bytes(size)));
  outcomes.require_as_kept();
}
