// What a home says of machines that cannot join: once for each machine and reason, with what to do.
#include "cli/refusals.h"

#include <catch2/catch.hpp>

namespace sluice::cli {

TEST_CASE("a refusal is told once for each machine and reason, with what to do") {
  Refusals refusals;
  CHECK(refusals.tell("machine 'eyes' was refused (workflow): its digest is another") ==
        "machine 'eyes' was refused (workflow): its digest is another; start both with the same "
        "cluster file, workflows and --set");
  CHECK(refusals.tell("machine 'eyes' (life 7) refuses this machine (workflow): another") == "");
  CHECK(refusals.tell("machine 'eyes' (life 7) refuses this machine (version): another") ==
        "machine 'eyes' (life 7) refuses this machine (version): another; install the same version "
        "of sluice on both");
  CHECK_FALSE(refusals.tell("machine 'talk' was refused (workflow): another")->empty());
  CHECK(refusals.tell("a connection from 10.0.0.9 was refused: its key is nobody's")
            ->ends_with("and copy those that differ"));
  CHECK(refusals.tell("machine 'talk': no handshake could be made: does it use keys?")
            ->ends_with("and copy those that differ"));
  CHECK(refusals.tell("machine 'talk': it does not know this machine's key (status 400)") == "");
}

TEST_CASE("what machines mend themselves is no refusal that people hear of") {
  Refusals refusals;
  for (const char* line :
       {"machine 'eyes' was refused (life over): the life is over",
        "machine 'eyes' (life 7) refuses this machine (link ended): it has ended",
        "machine 'eyes': nobody answers at its address", "machine 'eyes' does not answer", ""})
    CHECK_FALSE(refusals.tell(line).has_value());
}

}  // namespace sluice::cli
