// Answers of a Redis server: every place changed, and what the reader says of each.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "runtime/redis/reply.h"

namespace sluice {
namespace {

std::string text_of(const RedisValue& value) {
  std::string text;
  switch (value.kind) {
    case RedisValue::Kind::nothing:
      return "nothing";
    case RedisValue::Kind::number:
      return std::to_string(value.number);
    case RedisValue::Kind::text:
      text = "'";
      break;
    case RedisValue::Kind::error:
      text = "error '";
      break;
    case RedisValue::Kind::list:
      for (const RedisValue& item : value.list) text += (text.empty() ? "" : ", ") + text_of(item);
      return "[" + text + "]";
  }
  for (const char c : value.text) text += c >= ' ' && c <= '~' ? c : '?';
  return text + "'";
}

std::string read(const test::Outcomes::Bytes& bytes) {
  ReplyReader reader;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const Result<void> fed = reader.feed(text); !fed.ok()) return "fed: " + fed.error().message;
  std::string all;
  for (;;) {
    const auto answer = reader.next();
    if (!answer.ok()) {
      all += (all.empty() ? "" : "; ") + answer.error().message;
      // Nothing is believed that follows.
      const Result<void> fed = reader.feed("+OK\r\n");
      const auto next = reader.next();
      return all + (fed.ok() ? "" : "; then " + fed.error().message) +
             (next.ok() ? "; then goes on" : "; then " + next.error().message);
    }
    if (!*answer) return all.empty() ? "more is needed" : all;
    all += (all.empty() ? "" : "; ") + text_of(**answer);
  }
}

TEST_CASE("each place of a server's answer that is changed is refused or read, as before") {
  test::Outcomes outcomes("registry_answers");
  for (const char* text : {"*3\r\n$5\r\nenter\r\n:17\r\n*2\r\n$-1\r\n+fine\r\n", "-ERR no\r\n",
                           ":-9223372036854775808\r\n", "$0\r\n\r\n+a\r\n"}) {
    const auto all = std::as_bytes(std::span(std::string_view(text)));
    outcomes.change_bytes("an answer", {all.begin(), all.end()}, read);
  }
  const auto add = [&](const std::string& title, const std::string& text) {
    const auto all = std::as_bytes(std::span(text));
    std::string words = read({all.begin(), all.end()});
    if (words.size() > 200) words = std::to_string(words.size()) + " letters";
    outcomes.add(title, words);
  };
  for (const std::size_t size : {std::size_t{64} << 10U, (std::size_t{64} << 10U) + 1})
    add("a text's bytes", "$" + std::to_string(size) + "\r\n" + std::string(size, 'x') + "\r\n");
  for (const int depth : {6, 7, 8, 9, 10}) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "*1\r\n";
    add("depths", text + ":1\r\n");
  }
  for (const std::size_t items : {1023U, 1024U, 1025U}) {
    std::string text = "*" + std::to_string(items) + "\r\n";
    for (std::size_t i = 0; i < items; ++i) text += ":1\r\n";
    add("items", text);
  }
  for (const std::size_t size : {(std::size_t{256} << 10U), (std::size_t{256} << 10U) + 1})
    add("bytes that are no whole answer", "+" + std::string(size - 1, 'x'));
  outcomes.require_as_kept();
}

}  // namespace
}  // namespace sluice
