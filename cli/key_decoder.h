// What a terminal sends, byte by byte, as keys that a line editor knows: characters of UTF-8, and
// the escape sequences of arrows, Home, End and Delete. All other sequences are left out, so that
// no key writes its code into the line; bytes that are no UTF-8 become U+FFFD. Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>

namespace sluice::cli {

class KeyDecoder {
 public:
  void add(char byte);
  /// The next key, or the next part of a sequence; nothing: bytes are wanted.
  std::optional<wchar_t> take();

 private:
  enum class State { plain, escape, sequence, single };

  void add_character(char byte);
  void end_character();
  void add_sequence(char byte);
  void press(const std::string& sequence);

  State state_ = State::plain;
  std::string character_;  // its bytes so far
  std::string sequence_;   // between `ESC [` and its last byte
  std::deque<wchar_t> keys_;
};

}  // namespace sluice::cli
