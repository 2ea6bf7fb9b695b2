#include "cli/key_decoder.h"

#include <cstdint>
#include <string_view>

#include "base/utf8.h"

namespace sluice::cli {

namespace {

constexpr char escape = '\x1b';
constexpr wchar_t replacement = 0xfffd;

/// Bytes of a character, by its first.
std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

wchar_t code_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  auto code = static_cast<std::uint32_t>(first & (0x7fU >> character.size()));
  for (const char byte : character.substr(1))
    code = code << 6U | (static_cast<unsigned char>(byte) & 0x3fU);
  return static_cast<wchar_t>(code);
}

}  // namespace

std::optional<wchar_t> KeyDecoder::take() {
  if (keys_.empty()) return std::nullopt;
  const wchar_t key = keys_.front();
  keys_.pop_front();
  return key;
}

void KeyDecoder::add(char byte) {
  switch (state_) {
    case State::plain:
      if (byte != escape) return add_character(byte);
      end_character();
      state_ = State::escape;
      return;
    case State::escape:
      if (byte == escape) return;
      state_ = byte == '[' ? State::sequence : byte == 'O' ? State::single : State::plain;
      sequence_.clear();
      if (state_ != State::plain) return;
      // A letter with Alt moves by words; anything else stands for itself.
      if (byte > ' ' && byte < '\x7f') keys_.push_back(escape);
      return add_character(byte);
    case State::sequence:
      return add_sequence(byte);
    case State::single:
      state_ = State::plain;
      return press(std::string(1, byte));
  }
}

void KeyDecoder::add_sequence(char byte) {
  if (byte < ' ' || byte == '\x7f') {  // not of a sequence: it was cut off
    state_ = State::plain;
    return add(byte);
  }
  sequence_ += byte;
  if (byte < '@' || sequence_ == "[") return;  // `ESC [ [ A`: F1 of a Linux console
  state_ = State::plain;
  press(sequence_);
}

void KeyDecoder::press(const std::string& sequence) {
  std::string_view known = sequence;
  if (known == "1~" || known == "7~") known = "H";
  if (known == "4~" || known == "8~") known = "F";
  for (const std::string_view key : {"A", "B", "C", "D", "H", "F", "3~"})
    if (known == key) {
      keys_.push_back(escape);
      keys_.push_back(L'[');
      for (const char part : key) keys_.push_back(part);
    }
}

void KeyDecoder::add_character(char byte) {
  if (!character_.empty() && !utf8_continues(byte)) end_character();
  character_ += byte;
  if (character_.size() >= length_of(character_[0])) end_character();
}

void KeyDecoder::end_character() {
  if (character_.empty()) return;
  const bool whole = utf8_length(character_) == character_.size();
  // A Ctrl-D that was pressed while the terminal still took lines comes as a zero byte.
  if (character_[0] == '\0') character_[0] = '\x04';
  keys_.push_back(whole ? code_of(character_) : replacement);
  character_.clear();
}

}  // namespace sluice::cli
