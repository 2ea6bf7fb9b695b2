#include "cli/key_decoder.h"

#include <catch2/catch.hpp>
#include <string_view>

namespace sluice::cli {
namespace {

std::wstring keys(std::string_view bytes) {
  KeyDecoder decoder;
  std::wstring all;
  for (const char byte : bytes) {
    decoder.add(byte);
    while (const auto key = decoder.take()) all += *key;
  }
  return all;
}

TEST_CASE("Characters come whole, and what is no UTF-8 as one that says so") {
  CHECK(keys("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\r\x01") == L"a\u00e4\u20ac\U0001f600\r\x01");
  CHECK(keys("\xc3x") == L"\ufffdx");
  CHECK(keys("\x80y") == L"\ufffdy");
  CHECK(keys("\xed\xa0\x80z") == L"\ufffdz");
  CHECK(keys("\xff\xc3\xa4") == L"\ufffd\u00e4");
  CHECK(keys(std::string_view("a\0b", 3)) ==
        L"a\x04"
        L"b");
}

TEST_CASE("Arrows, Home, End and Delete are the same whatever the terminal's mode") {
  for (const char* bytes : {"\x1b[D", "\x1bOD"}) CHECK(keys(bytes) == L"\x1b[D");
  for (const char* bytes : {"\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"})
    CHECK(keys(bytes) == L"\x1b[H");
  for (const char* bytes : {"\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"})
    CHECK(keys(bytes) == L"\x1b[F");
  CHECK(keys("\x1b[3~") == L"\x1b[3~");
}

TEST_CASE("A key that means nothing here leaves nothing in the line") {
  CHECK(keys("a\x1b[15~b\x1b[1;5Cc\x1bOPd\x1b[200~e") == L"abcde");
  CHECK(keys("a\x1b[[Ab\x1b[[Ec") == L"abc");  // F1 and F5 of a Linux console
  CHECK(keys("\x1b[1\rx") == L"\rx");          // cut off by Return
  CHECK(keys("\x1b\x1b[Ax") == L"\x1b[Ax");    // Escape, then an arrow
  CHECK(keys("\x1b"
             "f\x1b\r") ==
        L"\x1b"
        L"f\r");
  CHECK(keys("\xc3\x1b[A") == L"\ufffd\x1b[A");
}

}  // namespace
}  // namespace sluice::cli
