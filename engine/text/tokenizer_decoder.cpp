#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "engine/text/tokenizer_text.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

std::string text_of(const Json& step, const char* key) {
  const auto it = step.find(key);
  return it != step.end() && it->is_string() ? it->get<std::string>() : std::string();
}
std::size_t count_of(const Json& step, const char* key) {
  const auto it = step.find(key);
  return it != step.end() && it->is_number_unsigned()
             ? static_cast<std::size_t>(std::min<std::uint64_t>(it->get<std::uint64_t>(), 64))
             : 0;
}

/// The byte of a token <0xXX>, or -1.
int byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : {token[3], token[4]}) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

bool is_utf8(const std::string& bytes) { return repaired(bytes) == bytes; }

void fall_back(std::vector<std::string>& tokens) {
  std::vector<std::string> made;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes))
      made.push_back(bytes);
    else
      for (std::size_t i = 0; i < bytes.size(); ++i) made.emplace_back("\xef\xbf\xbd");
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    made.push_back(std::move(token));
  }
  flush();
  tokens = std::move(made);
}

void from_letters(std::vector<std::string>& tokens) {
  static const std::unordered_map<std::string, char> bytes = [] {
    std::unordered_map<std::string, char> made;
    for (unsigned b = 0; b < 256; ++b)
      made.emplace(letter_of(static_cast<unsigned char>(b)), static_cast<char>(b));
    return made;
  }();
  std::string all;
  for (const std::string& token : tokens) {
    std::string mapped;
    bool known = true;
    for (std::size_t at = 0; at < token.size() && known;) {
      const std::size_t length = character_length(token, at);
      const auto it = bytes.find(token.substr(at, length));
      known = it != bytes.end();
      if (known) mapped += it->second;
      at += length;
    }
    all += known ? mapped : token;
  }
  tokens = {repaired(all)};
}

void strip(const std::string& content, std::size_t start, std::size_t stop, std::string& token) {
  for (std::size_t i = 0; i < start && token.starts_with(content); ++i)
    token.erase(0, content.size());
  for (std::size_t i = 0; i < stop && token.ends_with(content); ++i)
    token.resize(token.size() - content.size());
}

}  // namespace

Result<TokenDecoder> TokenDecoder::parse(const Json& step) {
  TokenDecoder made;
  Result<void> added = made.add(step, 0);
  if (!added.ok()) return added.error();
  return made;
}

Result<void> TokenDecoder::add(const Json& step, int depth) {
  if (step.is_null()) return {};
  const std::string type = step.is_object() ? text_of(step, "type") : "";
  const auto inner = step.find("decoders");
  if (type == "Sequence" && inner != step.end() && inner->is_array() && depth < 4 &&
      inner->size() <= 64) {
    for (const Json& one : *inner)
      if (Result<void> added = add(one, depth + 1); !added.ok()) return added;
    return {};
  }
  Step made;
  if (type == "ByteLevel") {
    made.kind = Step::Kind::byte_level;
  } else if (type == "ByteFallback") {
    made.kind = Step::Kind::byte_fallback;
  } else if (type == "Fuse") {
    made.kind = Step::Kind::fuse;
  } else if (type == "Replace" && step.contains("pattern") && step["pattern"].is_object()) {
    made.kind = Step::Kind::replace;
    made.from = text_of(step["pattern"], "String");
    made.to = text_of(step, "content");
  } else if (type == "Strip") {
    made.kind = Step::Kind::strip;
    made.from = text_of(step, "content");
    made.start = count_of(step, "start");
    made.stop = count_of(step, "stop");
  } else if (type == "Metaspace") {
    made.kind = Step::Kind::metaspace;
    made.from = text_of(step, "replacement");
    made.to = " ";
    made.drop_first_space = text_of(step, "prepend_scheme") != "never";
  } else {
    return invalid_argument("decoder '" + repaired(type) + "' is not supported");
  }
  const bool needs_text = made.kind == Step::Kind::replace || made.kind == Step::Kind::strip ||
                          made.kind == Step::Kind::metaspace;
  if (needs_text && (made.from.empty() || made.from.size() > 4096 || made.to.size() > 4096))
    return invalid_argument("decoder '" + type + "' needs a text of up to 4096 bytes");
  steps_.push_back(std::move(made));
  return {};
}

void TokenDecoder::apply(const Step& step, std::vector<std::string>& tokens) {
  switch (step.kind) {
    case Step::Kind::byte_level:
      return from_letters(tokens);
    case Step::Kind::byte_fallback:
      return fall_back(tokens);
    case Step::Kind::fuse: {
      std::string all;
      for (const std::string& token : tokens) all += token;
      tokens = {std::move(all)};
      return;
    }
    case Step::Kind::strip:
      for (std::string& token : tokens) strip(step.from, step.start, step.stop, token);
      return;
    case Step::Kind::replace:
    case Step::Kind::metaspace:
      for (std::string& token : tokens) {
        std::string made;
        for (std::size_t at = 0; at < token.size();) {
          if (token.compare(at, step.from.size(), step.from) == 0) {
            // The space that the pre-tokenizer put before the first word.
            if (!(step.drop_first_space && &token == tokens.data() && at == 0)) made += step.to;
            at += step.from.size();
          } else {
            made += token[at++];
          }
        }
        token = std::move(made);
      }
      return;
  }
}

std::string TokenDecoder::operator()(std::vector<std::string> tokens) const {
  if (steps_.empty()) {
    std::string all;
    for (const std::string& token : tokens) all += (all.empty() ? "" : " ") + token;
    return all;
  }
  for (const Step& step : steps_) apply(step, tokens);
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

}  // namespace sluice
