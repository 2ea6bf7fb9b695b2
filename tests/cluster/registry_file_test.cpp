// What a cluster file says of a registry that one machine forwards to the others, and each mistake.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/file_mistakes.h"

namespace sluice {

namespace {

/// Two machines at these addresses, and such a registry, in line 3.
std::string with(const std::string& registry, const std::string& more = "keys: k\n",
                 const std::string& front = "tcp://10.0.0.1:1",
                 const std::string& gpu = "tcp://10.0.0.2:1") {
  const auto at = [](const std::string& address) {
    return address.empty() ? "" : ", address: '" + address + "'";
  };
  return with_machines("  front: { home: true, roles: [ ear, eye ]" + at(front) +
                           " }\n  gpu: { roles: [ mind, hand ]" + at(gpu) + " }\n",
                       "registry: " + registry + "\n" + more);
}

std::string forwarded(const std::string& at = "gpu",
                      const std::string& forward = "tcp://10.0.0.2:7404") {
  return "{ address: 'unix:///s', at: " + at + ", forward: '" + forward + "' }";
}

}  // namespace

TEST_CASE("a registry says which machine forwards it and where, with a login or without") {
  const LoadedCluster loaded = load_cluster("c.yaml", with(forwarded()));
  REQUIRE(loaded.diagnostics.empty());
  CHECK(loaded.spec.registry->text == "unix:///s");
  CHECK(loaded.spec.registry_at->text == "gpu");
  CHECK(loaded.spec.registry_forward->text == "tcp://10.0.0.2:7404");
  CHECK_FALSE(loaded.spec.registry_user);
  const LoadedCluster both = load_cluster(
      "c.yaml", with("{ address: 'tcp://127.0.0.1:6379', user: lab, password_file: p, at: front, "
                     "forward: 'tcp://10.0.0.1:7404' }"));
  CHECK(both.diagnostics.empty());
  CHECK(both.spec.registry_user->text == "lab");
  CHECK(both.spec.registry_at->text == "front");
  // On one computer, over loopback addresses: no keys are needed.
  CHECK(mistake(with(forwarded("gpu", "tcp://127.0.0.1:3"), "", "tcp://127.0.0.1:1",
                     "tcp://127.0.0.1:2"))
            .empty());
}

TEST_CASE("each mistake about a registry that is forwarded is named, with what to write") {
  const std::string wants =
      " | registry: { address: unix:///PATH, at: MACHINE, forward: tcp://HOST:PORT }, and user: "
      "NAME with password_file: FILE where the server asks for a password";
  const std::string elsewhere = " | tcp://HOST:PORT, at which the other machines reach this one";
  const std::vector<std::pair<std::string, std::string>> rows{
      {with("{ address: 'unix:///s', at: gpu }"),
       "3:11 missing-key the registry has no forward" + wants},
      {with("{ address: 'unix:///s', forward: 'tcp://10.0.0.2:7404' }"),
       "3:11 missing-key the registry has no at" + wants},
      {with("{ at: gpu }"), "3:11 missing-key the registry has no address and no forward" + wants},
      {with("{ address: 'unix:///s', user: lab, at: gpu }"),
       "3:11 missing-key the registry has no password_file and no forward" + wants},
      {with("{ address: private, at: gpu, forward: 'tcp://10.0.0.2:7404' }"),
       "3:22 bad-registry a registry that is private is forwarded by no machine | registry: "
       "private"},
      {with("{ address: 'unix:///s', att: gpu, forward: 'tcp://10.0.0.2:7404' }"),
       "3:35 unknown-key unknown key 'att' in a registry | did you mean 'at'?"},
      {with(forwarded("gpus")),
       "3:39 unknown-machine no machine is called 'gpus' | did you mean 'gpu'?"},
      {with(forwarded("somebody")),
       "3:39 unknown-machine no machine is called 'somebody' | the machine on whose computer the "
       "server is"},
      {with(forwarded("gpu", "tcp://127.0.0.1:7404")),
       "3:53 bad-address 'tcp://127.0.0.1:7404' is reached on its own computer only, and 'front' "
       "(line 6) is reached over a network" +
           elsewhere},
      {with(forwarded("gpu", "ipc:///a/b")),
       "3:53 bad-address 'ipc:///a/b' is reached on its own computer only" + elsewhere},
      {with(forwarded("gpu", "tcp://0.0.0.0:7404")),
       "3:53 bad-address 'tcp://0.0.0.0:7404' would be open to every network | write the one "
       "address at which the others reach this machine"},
      {with(forwarded("gpu", "tcp://redis:7404")),
       "3:53 bad-address 'tcp://redis:7404': a numeric address is needed | as in "
       "tcp://127.0.0.1:5000 or tcp://[::1]:5000"},
      {with(forwarded("gpu", "10.0.0.2:7404")),
       "3:53 bad-address '10.0.0.2:7404' is no address | tcp://HOST:PORT with the host as a "
       "number"},
      {with(forwarded(), "", "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
       "3:53 missing-keys 'tcp://10.0.0.2:7404' can be reached from elsewhere, and there are no "
       "keys | keys: FOLDER; `sluice keys FOLDER --machine NAME` makes them"},
      {with(forwarded("gpu", "tcp://10.0.0.2:1")),
       "3:53 same-address 'gpu' (line 7) and the registry (line 3) have the same address | each "
       "machine listens at one of its own"},
      {with("{ address: 'tcp://127.0.0.1:7404', at: gpu, forward: 'tcp://127.0.0.1:7404' }",
            "keys: k\n", "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
       "3:22 same-address the registry (line 3) and the registry's server (line 3) have the same "
       "address | each machine listens at one of its own"},
      {with("{ address: 'tcp://127.0.0.1:2', at: gpu, forward: 'tcp://127.0.0.1:3' }", "keys: k\n",
            "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
       "3:22 same-address 'gpu' (line 7) and the registry's server (line 3) have the same address "
       "| each machine listens at one of its own"},
      {with(forwarded(), "keys: k\n", "", ""),
       "3:39 bad-registry 'gpu' forwards the registry, and no machine has an address | without "
       "addresses all machines are processes of this computer: `registry: ADDRESS` is enough"},
      {with("{ address: 'unix:///s', at: [ gpu ], forward: 'tcp://10.0.0.2:7404' }"),
       "3:39 wrong-kind the machine that has the registry must be a single value, this is a list "
       "| write one value, without the '-' or the [ ]"},
  };
  for (const auto& [text, expected] : rows) {
    INFO(text);
    CHECK(mistake(text) == expected);
    // One mistake is one error.
    CHECK(all_mistakes(text).find(',') == std::string::npos);
  }
}

}  // namespace sluice
