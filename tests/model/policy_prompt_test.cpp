// What robots are told, as openpi and lerobot write it.
#include "engine/policy/policy_prompt.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace sluice;

TEST_CASE("an instruction is written as the policy's family was trained on it") {
  const float state[] = {-1.0F, -0.9921875F, 0.0F, 0.999F, 1.0F, 3.0F, -1.001F, -9.0F};
  CHECK(policy_prompt(Family::pi05, "  pick_up the\ncup ", state) ==
        "Task: pick up the cup, State: 0 1 128 255 255 255 -1 -1;\nAction: ");
  CHECK(policy_prompt(Family::pi05, "wait", {}) == "wait\n");
  CHECK(policy_prompt(Family::pi0, " pick_up ", state) == "pick up\n");
  CHECK(policy_prompt(Family::smolvla, "pick_up ", state) == "pick_up \n");
  CHECK(policy_prompt(Family::smolvla, "pick_up\n", state) == "pick_up\n");
  CHECK(policy_prompt(Family::pi0, "", {}) == "\n");
  const float wrong[] = {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF};
  CHECK(policy_prompt(Family::pi05, "a", wrong) == "Task: a, State: 255 255 -1;\nAction: ");
}

TEST_CASE("the question for a sub-task is in small letters and on one line, and ends open") {
  CHECK(subtask_prompt("  Pick_up the\ncup ") == "Task: pick up the cup. Subtask: ");
  CHECK(subtask_prompt("") == "Task: . Subtask: ");
  CHECK(subtask_prompt("\xc3\x84pfel AZ[@") == "Task: \xc3\x84pfel az[@. Subtask: ");
}
