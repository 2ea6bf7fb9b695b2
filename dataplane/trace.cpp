#include "dataplane/trace.h"

#include <algorithm>
#include <charconv>

namespace sluice {
namespace {

constexpr int most_depth = 32;

/// A position in one line of JSON. Each function moves behind what it read, or says what is wrong.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool next_is(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Error wrong(std::string_view wanted) const {
    const bool ended = at_ >= text_.size();
    return invalid_argument("expected " + std::string(wanted) + " at column " +
                            std::to_string(at_ + 1) + ", found " +
                            (ended ? "the end" : "'" + std::string(1, text_[at_]) + "'"));
  }
  /// Between quotes; escapes are left as they stand.
  Result<std::string_view> string() {
    if (!next_is('"')) return wrong("a string");
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return wrong("the end of a string");
    return text_.substr(begin, at_++ - begin);
  }
  Result<std::uint64_t> count() {
    skip_space();
    std::uint64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    const bool whole = stop == end || (*stop != '.' && *stop != 'e' && *stop != 'E');
    if (error != std::errc{} || !whole) return wrong("a whole number from 0 to 2^64 - 1");
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }
  /// Whole milliseconds: a fraction is cut off.
  Result<std::uint64_t> time() {
    skip_space();
    double value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc{} || !(value >= 0 && value <= 1e15))
      return wrong("a number of milliseconds from 0 to 1e15");
    at_ = static_cast<std::size_t>(stop - text_.data());
    return static_cast<std::uint64_t>(value);
  }
  Result<void> skip(int depth) {
    if (depth > most_depth) return wrong("values nested at most 32 deep");
    if (next_is('[')) return skip_items(depth, ']', false);
    if (next_is('{')) return skip_items(depth, '}', true);
    skip_space();
    if (at_ < text_.size() && text_[at_] == '"') {
      const auto read = string();
      return read ? Result<void>() : read.error();
    }
    for (const std::string_view word : {"true", "false", "null"})
      if (text_.substr(at_, word.size()) == word) return at_ += word.size(), Result<void>();
    double value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc{}) return wrong("a value");
    at_ = static_cast<std::size_t>(stop - text_.data());
    return {};
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  Result<void> skip_items(int depth, char close, bool named) {
    if (next_is(close)) return {};
    do {
      if (named) {
        const auto name = string();
        if (!name) return name.error();
        if (!next_is(':')) return wrong("':'");
      }
      if (const auto skipped = skip(depth + 1); !skipped) return skipped;
    } while (next_is(','));
    return next_is(close) ? Result<void>() : wrong(named ? "',' or '}'" : "',' or ']'");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<std::vector<std::uint64_t>> parse_blocks(Scanner& scanner) {
  std::vector<std::uint64_t> blocks;
  if (!scanner.next_is('[')) return scanner.wrong("'[' of hash_ids");
  if (scanner.next_is(']')) return blocks;
  do {
    if (blocks.size() == most_trace_blocks)
      return invalid_argument("hash_ids has more than 65536 blocks");
    const auto block = scanner.count();
    if (!block) return block.error();
    blocks.push_back(*block);
  } while (scanner.next_is(','));
  if (!scanner.next_is(']')) return scanner.wrong("',' or ']' of hash_ids");
  std::vector<std::uint64_t> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return invalid_argument("hash_ids has block " + std::to_string(*twice) +
                            " twice; a path visits a block once");
  return blocks;
}

}  // namespace

Result<TraceRequest> parse_trace_line(std::string_view line) {
  Scanner scanner(line);
  TraceRequest request;
  bool has_time = false, has_blocks = false;
  if (!scanner.next_is('{')) return scanner.wrong("'{'");
  if (!scanner.next_is('}')) {
    do {
      const auto name = scanner.string();
      if (!name) return name.error();
      if (!scanner.next_is(':')) return scanner.wrong("':'");
      bool& seen = *name == "timestamp" ? has_time : has_blocks;
      if (*name == "timestamp" || *name == "hash_ids") {
        if (seen) return invalid_argument("it has " + std::string(*name) + " twice");
        seen = true;
      }
      if (*name == "timestamp") {
        const auto time = scanner.time();
        if (!time) return time.error();
        request.timestamp_ms = *time;
      } else if (*name == "hash_ids") {
        auto blocks = parse_blocks(scanner);
        if (!blocks) return blocks.error();
        request.blocks = std::move(*blocks);
      } else if (const auto skipped = scanner.skip(0); !skipped) {
        return skipped.error();
      }
    } while (scanner.next_is(','));
    if (!scanner.next_is('}')) return scanner.wrong("',' or '}'");
  }
  if (!scanner.at_end()) return scanner.wrong("nothing behind the object");
  if (!has_time) return invalid_argument("it has no timestamp");
  if (!has_blocks) return invalid_argument("it has no hash_ids");
  return request;
}

Result<void> TraceReader::take_line(std::string_view line, const Take& take) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (++lines_ == 1 && line.starts_with(byte_order_mark))
    line.remove_prefix(byte_order_mark.size());
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
  const auto request = parse_trace_line(line);
  if (!request)
    return Error{request.error().code,
                 "line " + std::to_string(lines_) + ": " + request.error().message};
  if (request->timestamp_ms < last_ms_)
    return invalid_argument("line " + std::to_string(lines_) + ": its timestamp, " +
                            std::to_string(request->timestamp_ms) + ", is before that of the " +
                            "request before it, " + std::to_string(last_ms_) +
                            ": sort the requests by time");
  last_ms_ = request->timestamp_ms;
  ++requests_;
  take(*request);
  return {};
}

Result<void> TraceReader::feed(std::string_view bytes, const Take& take) {
  while (true) {
    const std::size_t stop = bytes.find('\n');
    const std::size_t size = std::min(stop, bytes.size());
    if (rest_.size() + size > most_trace_line)
      return invalid_argument("line " + std::to_string(lines_ + 1) + ": longer than " +
                              std::to_string(most_trace_line) + " bytes");
    if (stop == std::string_view::npos) {
      rest_ += bytes;
      return {};
    }
    rest_ += bytes.substr(0, stop);
    if (const auto taken = take_line(rest_, take); !taken) return taken;
    rest_.clear();
    bytes.remove_prefix(stop + 1);
  }
}

Result<void> TraceReader::end(const Take& take) {
  if (rest_.empty()) return {};
  const auto taken = take_line(rest_, take);
  rest_.clear();
  return taken;
}

}  // namespace sluice
