#include "engine/text/tokenizer_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <array>
#include <cstdlib>

namespace sluice {

namespace {

using Json = nlohmann::json;
constexpr int depth_max = 4;
constexpr std::size_t text_max = std::size_t{1} << 12;  // of a pattern or a replacement

std::string text_of(const Json& step, const char* key) {
  const auto it = step.find(key);
  return it != step.end() && it->is_string() ? it->get<std::string>() : std::string();
}
bool flag_of(const Json& step, const char* key, bool otherwise) {
  const auto it = step.find(key);
  return it != step.end() && it->is_boolean() ? it->get<bool>() : otherwise;
}
Error unsupported(const char* part, const std::string& type) {
  return invalid_argument(std::string(part) + " '" + repaired(type) + "' is not supported");
}

/// {"String": ...} or {"Regex": ...}.
Result<Pattern> pattern_of(const Json& step) {
  const auto it = step.find("pattern");
  if (it == step.end() || !it->is_object()) return invalid_argument("a pattern is missing");
  const std::string literal = text_of(*it, "String");
  if (!literal.empty() && literal.size() < text_max) return Pattern::literal(literal);
  return Pattern::make(text_of(*it, "Regex"));
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string mapped(const std::string& text, int options) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(options));
  std::string result =
      size < 0 ? text : std::string(reinterpret_cast<char*>(made), static_cast<std::size_t>(size));
  std::free(made);
  return result;
}

bool is_number(std::string_view text, std::size_t at) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                   static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (code < 0) return false;
  const utf8proc_category_t kind = utf8proc_category(code);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

}  // namespace

std::size_t character_length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t wanted = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) return 1;
  std::size_t length = 1;
  while (length < wanted && at + length < text.size() &&
         (static_cast<unsigned char>(text[at + length]) & 0xc0U) == 0x80U)
    ++length;
  return length == wanted ? wanted : 1;
}

std::string repaired(std::string_view bytes) {
  std::string made;
  for (std::size_t at = 0; at < bytes.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t good =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + at,
                         static_cast<utf8proc_ssize_t>(bytes.size() - at), &code);
    if (good > 0) {
      made.append(bytes, at, static_cast<std::size_t>(good));
      at += static_cast<std::size_t>(good);
      continue;
    }
    made += "\xef\xbf\xbd";
    // The longest part that could have begun a character counts as one.
    const auto byte = [&](std::size_t i) {
      return at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U;
    };
    const unsigned first = byte(0);
    std::size_t length = 1;
    const auto within = [&](std::size_t i, unsigned low, unsigned high) {
      return byte(i) >= low && byte(i) <= high;
    };
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first >= 0xe0 && first <= 0xf4 && within(1, low, high)) {
      length = 2;
      if (first >= 0xf0 && within(2, 0x80, 0xbf)) length = 3;
    }
    at += length;
  }
  return made;
}

const std::string& letter_of(unsigned char byte) {
  static const std::array<std::string, 256> letters = [] {
    std::array<std::string, 256> made;
    unsigned other = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printed = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const unsigned code = printed ? b : other++;
      if (code < 0x80)
        made[b] = std::string(1, static_cast<char>(code));
      else
        made[b] = {static_cast<char>(0xc0U | code >> 6U), static_cast<char>(0x80U | (code & 63U))};
    }
    return made;
  }();
  return letters[byte];
}

Result<Pattern> Pattern::make(const std::string& expression) {
  if (expression.empty() || expression.size() > text_max)
    return invalid_argument("a pattern is empty or longer than " + std::to_string(text_max));
  int number = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &number, &place, nullptr);
  if (code == nullptr)
    return invalid_argument("the pattern is wrong at character " + std::to_string(place));
  Pattern made;
  made.compiled_ = std::shared_ptr<void>(
      code, [](void* held) { pcre2_code_free(static_cast<pcre2_code*>(held)); });
  return made;
}

Pattern Pattern::literal(const std::string& text) {
  Pattern made;
  made.literal_ = text;
  return made;
}

std::pair<std::size_t, std::size_t> Pattern::find(std::string_view text, std::size_t at) const {
  constexpr auto none = std::string_view::npos;
  if (!literal_.empty()) {
    const std::size_t begin = text.find(literal_, at);
    return {begin, begin == none ? none : begin + literal_.size()};
  }
  if (!compiled_) return {none, none};
  const auto* code = static_cast<const pcre2_code*>(compiled_.get());
  struct Scratch {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    Scratch() {
      pcre2_set_match_limit(context, 100'000);
      pcre2_set_heap_limit(context, 1 << 14);
    }
    ~Scratch() {
      pcre2_match_data_free(data);
      pcre2_match_context_free(context);
    }
  };
  thread_local Scratch scratch;
  const int matched = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  at == 0 ? 0 : PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
  if (matched < 0) return {none, none};
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(scratch.data);
  return {place[0], place[1]};
}

Result<Normalizer> Normalizer::parse(const Json& step) {
  Normalizer made;
  Result<void> added = made.add(step, 0);
  if (!added.ok()) return added.error();
  return made;
}

Result<void> Normalizer::add(const Json& step, int depth) {
  if (step.is_null()) return {};
  const std::string type = step.is_object() ? text_of(step, "type") : "";
  const auto inner = step.find("normalizers");
  if (type == "Sequence" && inner != step.end() && inner->is_array() && depth < depth_max &&
      inner->size() <= 64) {
    for (const Json& one : *inner)
      if (Result<void> added = add(one, depth + 1); !added.ok()) return added;
    return {};
  }
  Step made;
  if (type == "NFC") {
    made.kind = Step::Kind::nfc;
  } else if (type == "NFD") {
    made.kind = Step::Kind::nfd;
  } else if (type == "NFKC") {
    made.kind = Step::Kind::nfkc;
  } else if (type == "NFKD") {
    made.kind = Step::Kind::nfkd;
  } else if (type == "Lowercase") {
    made.kind = Step::Kind::lower;
  } else if (type == "Prepend") {
    made.kind = Step::Kind::prepend;
    made.to = text_of(step, "prepend");
  } else if (type == "Replace") {
    made.kind = Step::Kind::replace;
    made.from = step.contains("pattern") && step["pattern"].is_object()
                    ? text_of(step["pattern"], "String")
                    : "";
    made.to = text_of(step, "content");
    if (made.from.empty()) return unsupported("normalizer", "Replace without a String");
  } else {
    return unsupported("normalizer", type);
  }
  if (made.from.size() > text_max || made.to.size() > text_max)
    return invalid_argument("a normalizer's text is longer than " + std::to_string(text_max));
  steps_.push_back(std::move(made));
  return {};
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string made(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::nfc:
        made = mapped(made, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        break;
      case Step::Kind::nfd:
        made = mapped(made, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
        break;
      case Step::Kind::nfkc:
        made = mapped(made, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
        break;
      case Step::Kind::nfkd:
        made = mapped(made, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
        break;
      case Step::Kind::lower: {
        std::string lowered;
        for (std::size_t at = 0; at < made.size();) {
          utf8proc_int32_t code = 0;
          const auto size =
              utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(made.data()) + at,
                               static_cast<utf8proc_ssize_t>(made.size() - at), &code);
          std::array<utf8proc_uint8_t, 4> bytes{};
          const auto length =
              size > 0 ? utf8proc_encode_char(utf8proc_tolower(code), bytes.data()) : 0;
          lowered.append(reinterpret_cast<char*>(bytes.data()), static_cast<std::size_t>(length));
          at += size > 0 ? static_cast<std::size_t>(size) : 1;
        }
        made = std::move(lowered);
        break;
      }
      case Step::Kind::prepend:
        if (!made.empty()) made = step.to + made;
        break;
      case Step::Kind::replace:
        replace_all(made, step.from, step.to);
        break;
    }
  }
  return made;
}

Result<PreTokenizer> PreTokenizer::parse(const Json& step) {
  PreTokenizer made;
  Result<void> added = made.add(step, 0);
  if (!added.ok()) return added.error();
  return made;
}

Result<void> PreTokenizer::add_split(const Json& step) {
  Step made;
  Result<Pattern> pattern = pattern_of(step);
  if (!pattern.ok()) return pattern.error();
  made.pattern = std::move(pattern).value();
  made.invert = flag_of(step, "invert", false);
  const std::string behavior = text_of(step, "behavior");
  if (behavior == "Removed")
    made.keep = Step::Keep::removed;
  else if (behavior == "MergedWithPrevious")
    made.keep = Step::Keep::with_previous;
  else if (behavior == "MergedWithNext")
    made.keep = Step::Keep::with_next;
  else if (behavior != "Isolated")
    return unsupported("split behaviour", behavior);
  steps_.push_back(std::move(made));
  return {};
}

Result<void> PreTokenizer::add_metaspace(const Json& step) {
  Step made;
  made.kind = Step::Kind::metaspace;
  made.replacement = text_of(step, "replacement");
  if (made.replacement.empty() || made.replacement.size() > 8)
    return invalid_argument("Metaspace's replacement must be one character");
  const std::string scheme = text_of(step, "prepend_scheme");
  made.prepend_first = scheme == "first";
  made.prepend_always =
      scheme == "always" || (scheme.empty() && flag_of(step, "add_prefix_space", true));
  made.split = flag_of(step, "split", true);
  steps_.push_back(std::move(made));
  return {};
}

Result<void> PreTokenizer::add(const Json& step, int depth) {
  if (step.is_null()) return {};
  const std::string type = step.is_object() ? text_of(step, "type") : "";
  const auto inner = step.find("pretokenizers");
  if (type == "Sequence" && inner != step.end() && inner->is_array() && depth < depth_max &&
      inner->size() <= 64) {
    for (const Json& one : *inner)
      if (Result<void> added = add(one, depth + 1); !added.ok()) return added;
    return {};
  }
  if (type == "Split") return add_split(step);
  if (type == "Metaspace") return add_metaspace(step);
  Step made;
  if (type == "ByteLevel") {
    made.kind = Step::Kind::byte_level;
    made.prefix_space = flag_of(step, "add_prefix_space", true);
    made.regex = flag_of(step, "use_regex", true);
    // Source: Radford et al. 2019 (GPT-2).
    if (made.regex)
      made.pattern = std::move(Pattern::make(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|)"
                                             R"( ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"))
                         .value();
  } else if (type == "Digits") {
    made.kind = Step::Kind::digits;
    made.each = flag_of(step, "individual_digits", false);
  } else {
    return unsupported("pre-tokenizer", type);
  }
  steps_.push_back(std::move(made));
  return {};
}

void PreTokenizer::cut(const Step& step, std::string_view text, std::vector<std::string>& pieces) {
  struct Part {
    std::string_view text;
    bool matched;
  };
  std::vector<Part> parts;
  for (std::size_t at = 0; at < text.size();) {
    auto [begin, end] = step.pattern.find(text, at);
    if (begin == std::string_view::npos || end <= begin) begin = end = text.size();
    if (begin > at) parts.push_back({text.substr(at, begin - at), step.invert});
    if (end > begin) parts.push_back({text.substr(begin, end - begin), !step.invert});
    at = end;
  }
  bool joins = false;  // the next part belongs to the last piece
  for (const Part& part : parts) {
    if (part.matched && step.keep == Step::Keep::removed) {
      joins = false;
      continue;
    }
    const bool behind = part.matched && step.keep == Step::Keep::with_previous && !pieces.empty() &&
                        &part != parts.data() && !(&part - 1)->matched;
    if (joins || behind)
      pieces.back() += part.text;
    else
      pieces.emplace_back(part.text);
    joins = part.matched && step.keep == Step::Keep::with_next;
  }
}

std::vector<std::string> PreTokenizer::operator()(std::string_view text, bool first) const {
  std::vector<std::string> pieces{std::string(text)};
  for (const Step& step : steps_) {
    std::vector<std::string> next;
    for (std::string& piece : pieces) {
      const bool begins = first && &piece == pieces.data();
      if (step.kind == Step::Kind::split) {
        cut(step, piece, next);
      } else if (step.kind == Step::Kind::digits) {
        bool was = false;
        for (std::size_t at = 0, length = 0; at < piece.size(); at += length) {
          length = character_length(piece, at);
          const bool number = is_number(piece, at);
          if (at == 0 || number != was || (number && step.each)) next.emplace_back();
          next.back().append(piece, at, length);
          was = number;
        }
      } else if (step.kind == Step::Kind::metaspace) {
        replace_all(piece, " ", step.replacement);
        if ((step.prepend_always || (step.prepend_first && begins)) &&
            !piece.starts_with(step.replacement))
          piece = step.replacement + piece;
        Step split;
        split.pattern = Pattern::literal(step.replacement);
        split.keep = Step::Keep::with_next;
        if (step.split)
          cut(split, piece, next);
        else
          next.push_back(std::move(piece));
      } else {
        if (step.prefix_space && !piece.starts_with(' ')) piece = ' ' + piece;
        const std::size_t from = next.size();
        if (step.regex)
          cut(step, piece, next);
        else
          next.push_back(std::move(piece));
        for (std::size_t i = from; i < next.size(); ++i) {
          std::string letters;
          for (const char byte : next[i]) letters += letter_of(static_cast<unsigned char>(byte));
          next[i] = std::move(letters);
        }
      }
    }
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace sluice
