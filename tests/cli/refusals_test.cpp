// What a home says of machines that cannot join: once for each machine and reason, with what to do.
#include "cli/refusals.h"

#include <catch2/catch.hpp>

namespace sluice::cli {

TEST_CASE("a refusal is told once for each machine and reason, with what to do") {
  Refusals refusals;
  constexpr std::uint32_t eyes = 1, talk = 2;
  CHECK(refusals.tell(
            {"machine 'eyes' was refused (workflow): another", LinkRefusal::workflow, eyes}) ==
        "machine 'eyes' was refused (workflow): another; start both with "
        "the same cluster file, workflows and --set");
  CHECK(refusals.tell({"it refuses this machine", LinkRefusal::workflow, eyes}) == "");
  CHECK(refusals.tell({"another lease", LinkRefusal::lease, eyes}) == "");
  CHECK(refusals.tell({"it refuses this machine", LinkRefusal::version, eyes}) ==
        "it refuses this machine; install the same version of sluice on both");
  CHECK_FALSE(refusals.tell({"another", LinkRefusal::workflow, talk})->empty());
  CHECK(refusals.tell({"a connection from 10.0.0.9 was refused", LinkRefusal::key})
            ->ends_with("and copy those that differ"));
  CHECK(refusals.tell({"no handshake could be made", LinkRefusal::key, talk})
            ->ends_with("and copy those that differ"));
  CHECK(refusals.tell({"it does not know this machine's key", LinkRefusal::key, talk}) == "");
}

TEST_CASE("what machines mend themselves is no refusal that people hear of") {
  Refusals refusals;
  for (const LinkRefusal reason :
       {LinkRefusal::over, LinkRefusal::ended, LinkRefusal::not_connected})
    CHECK_FALSE(refusals.tell({"machine 'eyes' was refused", reason, 1}).has_value());
}

TEST_CASE("a line is a refusal by its reason, whatever words another machine puts into it") {
  Refusals refusals;
  for (const char* line : {"machine 'eyes' was refused (workflow): its digest is another",
                           "machine 'eyes': no handshake could be made", ""})
    CHECK_FALSE(refusals.tell(std::string(line)).has_value());
  // A known reason whose text looks like another one.
  CHECK(refusals.tell({"machine 'eyes' refuses: (wrong key) (workflow)", LinkRefusal::version, 1})
            ->ends_with("install the same version of sluice on both"));
  CHECK_FALSE(refusals.tell({"(version) (wrong key)", LinkRefusal::ended, 1}).has_value());
}

}  // namespace sluice::cli
