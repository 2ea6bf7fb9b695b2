#include "tests/outcomes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/directories.h"

namespace sluice::test {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A value in a text of JSON or YAML: where it begins and ends.
struct Token {
  std::size_t begin, end;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
         c == '+';
}

std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    if (text[at] == '"') {
      for (++end; end < text.size() && text[end] != '"'; ++end) end += text[end] == '\\' ? 1 : 0;
      end = std::min(end + 1, text.size());
    } else {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    if (end > at) found.push_back({at, end});
    at = std::max(end, at + 1);
  }
  return found;
}

/// Other values in place of that one: neighbours of a number, other types, nothing.
std::vector<std::string> instead_of(const std::string& token) {
  std::vector<std::string> made{"", "0", "-1", "\"other\"", "null", "[]", "1e300"};
  char* end = nullptr;
  const long long number = std::strtoll(token.c_str(), &end, 10);
  if (*end == '\0' && !token.empty()) {
    const auto bits = static_cast<unsigned long long>(number);  // which may go round
    for (const unsigned long long other : {bits + 1, bits - 1, bits * 2})
      made.push_back(std::to_string(static_cast<long long>(other)));
    made.push_back(std::to_string(number) + ".5");
  } else if (token.front() == '"') {
    made.insert(made.end(), {"\"\"", "1", token.substr(0, token.size() - 1) + "x\""});
  } else {
    made.insert(made.end(), {"true", "false", token + "x"});
  }
  return made;
}

}  // namespace

void Outcomes::add(const std::string& title, const std::string& outcome) {
  auto found = std::ranges::find(titles_, title, &Title::name);
  if (found == titles_.end()) found = titles_.insert(found, {title, {}, {}});
  Title& at = *found;
  for (const std::string& line : lines_of(outcome.empty() ? "\n" : outcome))
    if (++at.times[line] == 1) at.order.push_back(line);
}

void Outcomes::change_bytes(const std::string& title, const Bytes& sample,
                            const std::function<std::string(const Bytes&)>& read) {
  add(title, read(sample));
  for (std::size_t size = 0; size < sample.size(); ++size)
    add(title, read(Bytes(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(size))));
  Bytes changed = sample;
  changed.push_back(std::byte{0});
  add(title, read(changed));
  changed.pop_back();
  for (std::size_t at = 0; at < sample.size(); ++at) {
    const auto was = std::to_integer<unsigned>(sample[at]);
    std::set<unsigned> others{
        (was + 1) & 255U, (was - 1) & 255U, was ^ 0x80U, was ^ 0x40U, 0U, 0x7fU, 0xffU};
    others.erase(was);
    for (const unsigned other : others) {
      changed[at] = static_cast<std::byte>(other);
      add(title, read(changed));
    }
    changed[at] = sample[at];
  }
}

void Outcomes::change_text(const std::string& title, const std::string& sample,
                           const std::function<std::string(const std::string&)>& read) {
  add(title, read(sample));
  for (const Token& token : tokens_of(sample)) {
    const std::string was = sample.substr(token.begin, token.end - token.begin);
    for (const std::string& other : instead_of(was))
      if (other != was)
        add(title, read(sample.substr(0, token.begin) + other + sample.substr(token.end)));
  }
  for (std::size_t begin = 0; begin < sample.size();) {
    const std::size_t end = std::min(sample.find('\n', begin), sample.size() - 1) + 1;
    add(title, read(sample.substr(0, begin)));
    add(title, read(sample.substr(0, begin) + sample.substr(end)));
    add(title, read(sample.substr(0, end) + sample.substr(begin)));
    begin = end;
  }
}

std::string Outcomes::text() const {
  std::string text;
  for (const Title& title : titles_) {
    text += (text.empty() ? "# " : "\n# ") + title.name + '\n';
    for (const std::string& outcome : title.order) {
      std::string shown;
      for (const char c : outcome) {
        const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
        shown += is_control ? '?' : c;
      }
      std::string times = std::to_string(title.times.at(outcome));
      if (shown.empty()) shown = "(nothing)";
      if (shown.ends_with(' ')) shown.back() = '_';  // so that its end can be seen
      times.insert(0, times.size() < 4 ? 4 - times.size() : 0, ' ');
      text += times + "  " + shown + '\n';
    }
  }
  return text;
}

void Outcomes::require_as_kept() const {
  const std::string path = std::string(SLUICE_SOURCE_DIR) + "/tests/outcomes/" + name_ + ".txt";
  const std::string now = text();
  const char* rewrite = std::getenv("SLUICE_REWRITE");
  if (rewrite != nullptr && std::string_view(rewrite) == "1") std::ofstream(path) << now;
  std::ifstream file(path);
  INFO(path << "; SLUICE_REWRITE=1 writes it anew");
  REQUIRE(file);
  const std::string kept(std::istreambuf_iterator<char>(file), {});
  if (kept == now) return;
  const std::vector<std::string> was = lines_of(kept), is = lines_of(now);
  const auto [a, b] = std::ranges::mismatch(was, is);
  INFO("line " << a - was.begin() + 1);
  REQUIRE((b == is.end() ? "the end" : *b) == (a == was.end() ? "the end" : *a));
  REQUIRE(now == kept);
}

}  // namespace sluice::test
