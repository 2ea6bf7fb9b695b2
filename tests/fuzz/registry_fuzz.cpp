// Any bytes as a Redis server's answers: the same values however the bytes are cut, within the
// bounds, and an entry that such a server answers never holds beyond its lease or below its life.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/redis/reply.h"
#include "runtime/registry/registration.h"

using namespace sluice;

namespace {

using namespace std::chrono_literals;

struct Outcome {
  std::vector<RedisValue> answers;
  bool refused = false;
};

Outcome read_in_parts(std::string_view bytes, std::size_t part) {
  Outcome outcome;
  ReplyReader reader;
  for (std::size_t at = 0; at < bytes.size() && !outcome.refused; at += part) {
    outcome.refused = !reader.feed(bytes.substr(at, part)).ok();
    while (!outcome.refused) {
      auto answer = reader.next();
      outcome.refused = !answer.ok();
      if (outcome.refused || !*answer) break;
      outcome.answers.push_back(std::move(**answer));
    }
  }
  if (outcome.refused && (reader.feed("+OK\r\n").ok() || reader.next().ok())) __builtin_trap();
  return outcome;
}

/// Counts what is in it, to the depth that is allowed.
std::size_t items_of(const RedisValue& value, int depth) {
  if (depth > 8 || value.text.size() > (std::size_t{64} << 10U) || value.list.size() > 1024)
    __builtin_trap();
  std::size_t items = 1;
  for (const RedisValue& item : value.list) items += items_of(item, depth + 1);
  return items;
}

bool is_same(const RedisValue& a, const RedisValue& b) {
  if (a.kind != b.kind || a.text != b.text || a.number != b.number ||
      a.list.size() != b.list.size())
    return false;
  for (std::size_t i = 0; i < a.list.size(); ++i)
    if (!is_same(a.list[i], b.list[i])) return false;
  return true;
}

void enter(const std::vector<RedisValue>& answers) {
  Registration entry({"laptop", "eyes", "token", "workflow", 5, 1000ms});
  Registration::Instant now{};
  for (const RedisValue& answer : answers) {
    now += 260ms;
    const auto question = entry.ask(now);
    std::vector<std::string> words;
    for (const RedisValue& item : answer.list) words.push_back(item.text);
    if (question) entry.answered(question->number, words, now);
    if (entry.incarnation() != 0 && entry.incarnation() < 5) __builtin_trap();
    if (entry.present().size() > 256) __builtin_trap();
    if (entry.standing(now + 1000ms).kind == RegistryStanding::Kind::current) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read_in_parts(bytes, size + 1);
  for (const std::size_t part : {std::size_t{1}, std::size_t{7}}) {
    const Outcome cut = read_in_parts(bytes, part);
    // What is whole before the place that is refused is given, however the bytes come.
    if (cut.refused != whole.refused || cut.answers.size() != whole.answers.size())
      __builtin_trap();
    for (std::size_t i = 0; i < cut.answers.size(); ++i)
      if (!is_same(cut.answers[i], whole.answers[i])) __builtin_trap();
  }
  for (const RedisValue& answer : whole.answers)
    if (items_of(answer, 0) > 2048) __builtin_trap();
  enter(whole.answers);
  return 0;
}
