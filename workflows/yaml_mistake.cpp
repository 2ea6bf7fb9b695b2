#include "workflows/yaml_mistake.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "workflows/yaml_colon.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

std::string hex_of(char byte) {
  static constexpr std::string_view hex = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return std::string("\\x") + hex[value >> 4U] + hex[value & 15U];
}

/// Quotes, brackets and indents up to where the parser gave up.
class Scan {
 public:
  Scan(std::string_view text, std::size_t end) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      // What is open there stays open; only a quote may still be seen to close.
      if (i >= end && quote_ == 0) break;
      step(i);
    }
  }

  /// A quote that is still open at the end, or that closes lines below.
  std::optional<std::size_t> open_quote() const { return quote_ != 0 ? quote_at_ : long_quote_; }
  /// A bracket that closes one of the other kind.
  bool is_mixed() const { return mixed_; }
  std::optional<std::size_t> open_bracket() const {
    return brackets_.empty() ? std::nullopt : std::optional(brackets_.back());
  }
  std::optional<std::size_t> outer_bracket() const {
    return brackets_.empty() ? std::nullopt : std::optional(brackets_.front());
  }
  bool is_open(std::size_t bracket) const {
    return std::ranges::find(brackets_, bracket) != brackets_.end();
  }
  std::optional<std::size_t> tab() const { return tab_; }
  /// A no-break space, or one of another script, in front of a line.
  std::optional<std::size_t> wide_indent() const { return wide_indent_; }
  /// The start of a line whose indent is none of those above it.
  std::optional<std::size_t> odd_indent() const { return odd_indent_; }

 private:
  void step(std::size_t& i) {
    const char c = text_[i];
    if (i == 0 || text_[i - 1] == '\n') begin_line(i);
    if (quote_ != 0) return in_quote(i);
    if (c == '\n') {
      comment_ = false;
      before_ = '\n';
    } else if (comment_ || c == ' ' || c == '\t' || c == '\r') {
      space_ = true;
    } else {
      token(i);
      before_ = c;
    }
    if (c != ' ' && c != '\t') space_ = false;
  }

  void token(std::size_t i) {
    const char c = text_[i];
    const bool starts = std::string_view("\n[{,:-?").find(before_) != std::string_view::npos;
    if (c == '#' && (space_ || before_ == '\n')) {
      comment_ = true;
    } else if ((c == '\'' || c == '"') && starts) {
      quote_ = c;
      quote_at_ = i;
    } else if (c == '{' || c == '[') {
      brackets_.push_back(i);
    } else if ((c == '}' || c == ']') && !brackets_.empty()) {
      mixed_ = mixed_ || text_[brackets_.back()] != (c == '}' ? '{' : '[');
      brackets_.pop_back();
    }
  }

  void in_quote(std::size_t& i) {
    const char c = text_[i];
    if (c == '\\' && quote_ == '"') {
      ++i;
    } else if (c == quote_) {
      if (quote_ == '\'' && i + 1 < text_.size() && text_[i + 1] == '\'') {
        ++i;
        return;
      }
      const std::string_view inside = text_.substr(quote_at_, i - quote_at_);
      if (!long_quote_ && inside.find('\n') != std::string_view::npos) long_quote_ = quote_at_;
      quote_ = 0;
      before_ = c;
    }
  }

  void begin_line(std::size_t i) {
    std::size_t at = i;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    const bool blank = at == text_.size() || text_[at] == '\n' || text_[at] == '\r';
    if (quote_ != 0 || !brackets_.empty() || blank || text_[at] == '#') return;
    if (wide_space(text_.substr(at)) > 0 && !wide_indent_) wide_indent_ = at;
    const std::size_t tab = text_.substr(i, at - i).find('\t');
    if (tab != std::string_view::npos) {
      if (!tab_) tab_ = i + tab;
      return;
    }
    std::size_t indent = at - i;
    bool popped = false;
    while (!indents_.empty() && indents_.back() > indent) {
      indents_.pop_back();
      popped = true;
    }
    if (popped && !odd_indent_ && (indents_.empty() || indents_.back() != indent)) odd_indent_ = at;
    if (indents_.empty() || indents_.back() != indent) indents_.push_back(indent);
    // What follows a dash stands as far in as it is written.
    while (at + 1 < text_.size() && text_[at] == '-' && text_[at + 1] == ' ') {
      while (at + 1 < text_.size() && text_[at + 1] == ' ') ++at;
      ++at;
      indent = at - i;
      indents_.push_back(indent);
    }
  }

  std::string_view text_;
  char quote_ = 0;
  std::size_t quote_at_ = 0;
  bool comment_ = false;
  bool space_ = true;
  char before_ = '\n';  // the last character that is no space
  std::vector<std::size_t> brackets_;
  bool mixed_ = false;
  std::vector<std::size_t> indents_;
  std::optional<std::size_t> long_quote_;
  std::optional<std::size_t> tab_;
  std::optional<std::size_t> wide_indent_;
  std::optional<std::size_t> odd_indent_;
};

struct Words {
  std::string_view parser;
  std::string_view message;
  std::string_view suggestion;
};
constexpr std::array<Words, 12> known_words{
    {{"illegal map value", "a ':' is not expected here",
      "end the line above with ':' if this belongs to it, or align this line with its neighbours; "
      "a "
      "value that holds ': ' needs quotes"},
     {"end of map not found", "this line does not fit the lines above it",
      "write `key: value`, and indent it as its neighbours"},
     {"end of sequence not found", "this line does not fit the list above it",
      "begin it with '- ', and indent it as its neighbours"},
     {"illegal block entry", "a list may not begin here",
      "put the '-' on a line of its own, below the key"},
     {"illegal flow end", "this bracket closes nothing", "remove it, or open it before"},
     {"unknown token", "this character cannot begin a value", "put the value in quotes"},
     {"anchor is not defined", "aliases are not allowed", "write the value out"},
     {"unknown escape character", "an unknown escape in double quotes",
      "write \\\\ for a backslash, or use single quotes"},
     {"illegal map key", "a '?' may not stand here", "remove it, or put the value in quotes"},
     {"illegal tab", "a tab indents this line", "indent with spaces"},
     {"unexpected character in block scalar", "nothing may follow a '|' or '>' in its line",
      "put the text on the lines below, indented further, or in quotes"},
     {"document indicator", "a line of '---' or '...' inside a value",
      "a file holds one document"}}};

/// What a merge of two versions leaves in a file.
std::optional<Diagnostic> merge_mark(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text.substr(at).starts_with("<<<<<<< ") || text.substr(at).starts_with(">>>>>>> "))
      return syntax(text, at, "this line is the mark of a merge that is not finished",
                    "keep one of the two versions, and remove the marks");
    at = end + 1;
  }
  return std::nullopt;
}

/// A '?' behind a word in the line of this bracket, at which the parser ends the word.
std::optional<std::size_t> late_mark(std::string_view text, std::size_t bracket) {
  const std::string_view line = text.substr(0, std::min(text.find('\n', bracket), text.size()));
  for (std::size_t at = line.find('?', bracket); at != std::string_view::npos;
       at = line.find('?', at + 1))
    if (at + 1 == line.size() ||
        std::string_view(" ,}]").find(line[at + 1]) != std::string_view::npos)
      return at;
  return std::nullopt;
}

/// A line of Markdown, or the comment of another language: the first of them.
std::optional<Diagnostic> foreign_line(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1) {
    const std::size_t first = std::min(text.find_first_not_of(" \t", at), text.size());
    const std::string_view line = text.substr(first);
    if (line.starts_with("```"))
      return syntax(text, first, "this line is a fence of Markdown", "remove the lines of ```");
    for (const std::string_view dash : {"\xe2\x80\x93 ", "\xe2\x80\x94 ", "\xe2\x80\xa2 ", "* "})
      if (line.starts_with(dash))
        return syntax(text, first, "a list entry begins with '- '",
                      "write - in place of " + std::string(dash.substr(0, dash.size() - 1)));
    if (line.starts_with("//") || line.starts_with("/*"))
      return syntax(text, first, "a comment begins with '#'",
                    "write # in place of " + std::string(line.substr(0, 2)));
  }
  return std::nullopt;
}

/// The '-' of an entry that stands among keys: of a list above that is indented otherwise, or whose
/// own entry was taken for a key.
Diagnostic stray_entry(std::string_view text, std::size_t byte) {
  const std::size_t indent = byte - line_of(text, byte);
  for (std::size_t line = line_of(text, byte); line > 1;) {
    line = text.rfind('\n', line - 2) + 1;  // npos + 1 is 0
    const std::size_t first = text.find_first_not_of(" \r\n", line);
    if (first >= byte) continue;  // a blank line
    const std::string_view rest = text.substr(first);
    if (rest.starts_with("-") && !rest.starts_with("- ") && first - line >= indent)
      return glued_dash(text, first);
    if (first - line <= indent) break;
    if (rest.starts_with("- "))
      return syntax(
          text, byte, "this list entry is indented less than those above it",
          "align its '-' with that of line " + std::to_string(place_of(text, first).line));
  }
  return syntax(text, byte, "a list entry stands among the keys of a map", "remove the '-'");
}

/// A line that the parser expects no more in the map that it reads.
std::optional<Diagnostic> stray_line(std::string_view text, std::size_t byte) {
  const std::string_view rest = text.substr(byte);
  if (rest.starts_with("- ")) return stray_entry(text, byte);
  const std::size_t line = line_of(text, byte);
  const std::size_t before = text.substr(0, byte).find_last_not_of(" \t\r\n");
  if (before == std::string_view::npos) return std::nullopt;
  if (before >= line && (text[before] == '}' || text[before] == ']'))
    return syntax(text, byte, "nothing may follow the closing bracket in its line", "remove it");
  const std::size_t above = line_of(text, before + 1);
  const auto indent = [&](std::size_t at) { return text.find_first_not_of(' ', at) - at; };
  if (above == line || text[above + indent(above)] == '#' || indent(line) <= indent(above))
    return std::nullopt;
  return syntax(text, byte,
                "this line is indented further than line " +
                    std::to_string(place_of(text, above).line) + ", which has its value already",
                "align the two");
}

/// A bracket at `byte` without which all others of the text close each other.
bool is_one_too_many(std::string_view text, std::size_t byte) {
  if (byte >= text.size() || (text[byte] != ']' && text[byte] != '}')) return false;
  std::string rest(text);
  rest[byte] = ' ';
  const Scan scan(rest, rest.size());
  return !scan.is_mixed() && !scan.open_bracket() && !scan.open_quote();
}

}  // namespace

std::size_t wide_space(std::string_view text) {
  for (const std::string_view space : {"\xc2\xa0", "\xe2\x80\xaf", "\xe3\x80\x80"})
    if (text.starts_with(space)) return space.size();
  return 0;
}

std::size_t line_of(std::string_view text, std::size_t byte) {
  return text.rfind('\n', byte == 0 ? 0 : byte - 1) + 1;  // npos + 1 is 0
}

Diagnostic syntax(std::string_view text, std::size_t byte, std::string message,
                  std::string suggestion) {
  return {Severity::error, place_of(text, byte), "yaml-syntax", std::move(message),
          std::move(suggestion)};
}

Mark place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto column =
      std::ranges::count_if(before.substr(begin), [](char c) { return !utf8_continues(c); }) + 1;
  return {static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(column), 1};
}

std::optional<Diagnostic> wrong_bytes(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return syntax(text, 0, "the file is UTF-16", "save it as UTF-8");
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0)
      return syntax(text, i, "the file is not text: here is a zero byte", "save it as UTF-8 text");
    if (length == 0)
      return syntax(text, i, "the byte " + hex_of(text[i]) + " is not UTF-8",
                    "save the file as UTF-8");
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      return syntax(text, i, "the control byte " + hex_of(text[i]) + " stands in the text",
                    "remove it");
    i += length;
  }
  return std::nullopt;
}

std::optional<Diagnostic> wrong_lines(std::string_view text) {
  const std::size_t cr = text.find('\r');
  if (cr != std::string_view::npos && cr + 1 < text.size() &&
      text.find('\n') == std::string_view::npos)
    return syntax(text, cr, "the lines end with a carriage return alone",
                  "save the file with LF, or with CR and LF, at the end of its lines");
  const char first = text.empty() ? ' ' : text[0];
  if (first != '+' && first != '>') return std::nullopt;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1)
    if (text[at] != first && text[at] != '\n' && text[at] != '\r') return std::nullopt;
  return syntax(text, 0,
                std::string("each line begins with '") + first + "', as in a " +
                    (first == '+' ? "difference of two files" : "quotation"),
                std::string("remove the '") + first + "' in front of each line");
}

Diagnostic glued_dash(std::string_view text, std::size_t byte) {
  return syntax(text, byte, "a space must follow the '-' of a list entry",
                "write `- ` in place of `-`");
}

bool quote_closes(std::string_view text, std::size_t byte) {
  const char quote = text[byte];
  for (std::size_t i = byte + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"')
      ++i;
    else if (text[i] == quote)
      return true;
  }
  return false;
}

bool is_wide_space(std::string_view text) { return wide_space(text) > 0; }

Diagnostic wide_space_mistake(std::string_view text, std::size_t byte) {
  return syntax(text, byte, "a no-break space indents this line", "indent with plain spaces");
}

Diagnostic unclosed_quote(std::string_view text, std::size_t byte) {
  return syntax(text, byte, "this quote is not closed in its line",
                std::string("write the closing ") + text[byte] + " at the end of the value");
}

/// A '${' within braces, which ends the value before it.
static Diagnostic dollar_mistake(std::string_view text, std::size_t byte) {
  const std::size_t end = text.find_first_of("}\n", byte);
  const std::string bare = end == std::string_view::npos || text[end] == '\n'
                               ? std::string()
                               : in_template(text.substr(byte, end + 1 - byte));
  const std::string_view before = text.substr(0, byte);
  const std::size_t key_end = before.find_last_not_of(' ') + 1;
  const bool path =
      before.substr(0, key_end).ends_with("model:") || before.substr(0, key_end).ends_with("ssd:");
  if (!bare.empty() && path)
    return syntax(text, byte, "a path comes from no node and no input",
                  "write the path, or \"${NAME:-default}\" with a variable of the environment");
  if (!bare.empty())
    return syntax(text, byte, "what a node or an input brings is written without '${'",
                  "write " + bare);
  return syntax(text, byte, "'${' within braces needs quotes around the value",
                "write \"${NAME:-default}\"");
}

/// True when this bracket has its own one further down.
static bool is_closed(std::string_view text, std::size_t bracket) {
  const Scan whole(text, text.size());
  return !whole.is_mixed() && !whole.open_quote() && !whole.is_open(bracket);
}

/// The parser, which met something at `byte` within this bracket, says that it is not closed, and
/// it is, further down.
static std::optional<Diagnostic> missing_comma(std::string_view text, std::size_t byte,
                                               std::size_t bracket) {
  if (!is_closed(text, bracket)) return std::nullopt;
  const bool glued =
      byte > 0 && std::string_view(" \t\r\n,").find(text[byte - 1]) == std::string_view::npos;
  if (glued && (text[byte] == '[' || text[byte] == '{'))
    return syntax(text, byte, "a bracket within a value needs quotes around the value",
                  "put the value in quotes, or write a space or a ',' before the bracket");
  // It is the ':' behind a key: the comma is missing before that.
  const std::size_t last = byte == 0 ? 0 : text.find_last_not_of(' ', byte - 1);
  const std::size_t at =
      text[byte] == ':' ? text.find_last_of(" \t\n,[{", last) + 1 : byte;  // npos + 1: 0
  return syntax(text, at, "a ',' is missing before this",
                "entries within brackets have a ',' between them");
}

Diagnostic syntax_mistake(std::string_view text, std::size_t byte, const std::string& parser) {
  // What the parser says of nesting that is too deep for it, far beyond what is allowed here.
  if (parser.find("bad file") != std::string::npos)
    return syntax(text, byte, "nesting is deeper than 64", "flatten the file");
  const bool colon = parser.find("illegal map value") != std::string::npos;
  if (colon)
    for (const auto look : {long_key, two_keys, glued_above})
      if (auto found = look(text, byte)) return std::move(*found);
  const Scan scan(text, byte);
  if (const auto tab = scan.tab())
    return syntax(text, *tab, "a tab indents this line", "indent with spaces");
  if (const auto wide = scan.wide_indent()) return wide_space_mistake(text, *wide);
  if (auto merge = merge_mark(text)) return std::move(*merge);
  if (auto foreign = foreign_line(text)) return std::move(*foreign);
  if (const auto quote = scan.open_quote()) return unclosed_quote(text, *quote);
  if (auto key = colon ? missing_colon(text, byte, scan.outer_bracket()) : std::nullopt)
    return std::move(*key);
  const bool flow = parser.find("flow not found") != std::string::npos;
  const bool ends = parser.find("illegal flow end") != std::string::npos;
  const bool block = colon || parser.find("not found") != std::string::npos ||
                     parser.find("illegal block") != std::string::npos;
  const std::size_t line = line_of(text, byte);
  if (const std::size_t dollar = text.substr(line, text.find('\n', byte) - line).find("${");
      flow && dollar != std::string_view::npos)
    return dollar_mistake(text, line + dollar);
  if (const auto mark =
          flow && scan.open_bracket() ? late_mark(text, *scan.open_bracket()) : std::nullopt)
    return syntax(text, *mark, "a '?' at the end of a word within braces needs quotes",
                  "remove it, or put the value in quotes");
  if ((flow || ends) && is_one_too_many(text, byte))
    return syntax(text, byte, "this bracket closes nothing", "remove it, or open it before");
  if (auto glued = flow ? glued_bracket(text, byte, scan.open_bracket()) : std::nullopt)
    return std::move(*glued);
  if (const auto bracket = scan.open_bracket(); bracket && is_glued_key(text, *bracket))
    return syntax(
        text, *bracket - 1, "a space must follow this ':'",
        std::string("write `: ") + text[*bracket] + "` in place of `:" + text[*bracket] + "`");
  if (const auto bracket = scan.open_bracket(); bracket && flow)
    if (auto comma = missing_comma(text, byte, *bracket)) return std::move(*comma);
  if (const auto bracket = scan.open_bracket();
      bracket && (flow || ends || (block && !is_closed(text, *bracket))))
    return syntax(text, *bracket, "this bracket is not closed",
                  std::string("write the closing ") + (text[*bracket] == '{' ? '}' : ']') +
                      ", and a ',' between the entries before it");
  if (const auto odd = scan.odd_indent(); odd && block)
    return syntax(text, *odd, "the indent of this line is that of no line above it",
                  "align it with the lines it belongs to");
  if (parser.find("end of map not found") != std::string::npos) {
    if (auto stray = stray_line(text, byte)) return std::move(*stray);
    const bool first = text.substr(line, byte - line).find_first_not_of(" -") == text.npos;
    for (const auto look : {key_without_colon, word_without_colon})
      if (auto key = first ? look(text, byte) : std::nullopt) return std::move(*key);
  }
  for (const Words& words : known_words)
    if (parser.find(words.parser) != std::string::npos)
      return syntax(text, byte, std::string(words.message), std::string(words.suggestion));
  return syntax(text, byte, "not valid YAML: " + parser, "");
}

}  // namespace sluice
