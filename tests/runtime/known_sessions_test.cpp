// What a role host remembers of sessions.
#include "runtime/hosts/known_sessions.h"

#include <catch2/catch.hpp>

using sluice::hosts::KnownSessions;

TEST_CASE("a session that was in an earlier life has lost what was kept, and hears of it once") {
  KnownSessions known(3);
  CHECK_FALSE(known.used("a", 1));
  CHECK_FALSE(known.used("a", 1));
  CHECK(known.used("a", 2));
  CHECK_FALSE(known.used("a", 2));
  known.forget("a");
  known.forget("nobody");
  CHECK_FALSE(known.used("a", 3));
  CHECK(known.size() == 1);
}

TEST_CASE("a loss that reached nobody is told at the next use, once") {
  KnownSessions known(3);
  CHECK_FALSE(known.used("a", 1));
  CHECK(known.used("a", 2));
  known.still_lost("a");
  known.still_lost("nobody");
  CHECK(known.used("a", 2));
  CHECK_FALSE(known.used("a", 2));
  known.still_lost("a");
  CHECK(known.used("a", 3));
  CHECK(known.size() == 1);
}

TEST_CASE("as many sessions as are remembered stay so; of more the longest unused is forgotten") {
  KnownSessions known(3);
  for (const char* name : {"a", "b", "c"}) CHECK_FALSE(known.used(name, 1));
  // All three are known: none of them makes another forgotten.
  for (const char* name : {"c", "b", "a"}) CHECK(known.used(name, 2));
  CHECK_FALSE(known.used("d", 2));
  CHECK(known.size() == 3);
  for (const char* name : {"b", "a", "d"}) CHECK(known.used(name, 3));
  CHECK_FALSE(known.used("c", 3));  // was the oldest when d came
}
