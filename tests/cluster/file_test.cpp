// Cluster files: what is read of them, and every mistake with its place and its words.
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "tests/cluster/file_mistakes.h"

namespace sluice {

TEST_CASE("a cluster file says which role runs where") {
  LoadedCluster loaded =
      load_cluster("c.yaml", with_machines("  front: { home: true, roles: [ ear, eye ] }\n"
                                           "  gpu: { roles: [ mind, hand ], hosts: { models: "
                                           "[ mind, hand ] } }\n",
                                           "lease: 500ms\nkeys: secrets\nregistry: private\n"));
  REQUIRE(loaded.diagnostics.empty());
  const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  const WorkflowSpec* specs[] = {&workflow.spec, &workflow.spec};
  const Placement placed = place_roles(loaded, specs);
  CHECK(loaded.diagnostics.empty());
  CHECK(placed == Placement{{{0}, {1}, {1}, {0}}, {{0}, {1}, {1}, {0}}});
  CHECK(loaded.spec.homes() == std::vector<std::uint32_t>{0});
  CHECK(loaded.spec.keeper() == 0);
  CHECK(loaded.spec.machines[0].hosts.empty());
  REQUIRE(loaded.spec.machines[1].hosts.size() == 1);
  CHECK(loaded.spec.machines[1].hosts[0].name.text == "models");
  CHECK(loaded.spec.machines[1].hosts[0].roles.size() == 2);
  CHECK(loaded.spec.machines[1].hosts[0].memory == 0);
  CHECK_FALSE(loaded.spec.machines[1].hosts[0].hang_after);
  CHECK(loaded.spec.machines[1].hosts[0].cores.empty());
  CHECK(loaded.spec.lease == std::chrono::milliseconds(500));
  CHECK(loaded.spec.keys->text == "secrets");
  CHECK(loaded.spec.registry->text == "private");
  CHECK_FALSE(load_cluster("c.yaml", with_machines("", "registry: none\n")).spec.registry);
  CHECK_FALSE(loaded.spec.registry_user);
  const LoadedCluster shared = load_cluster(
      "c.yaml", with_machines("  front: { home: true, roles: [ ear, eye, mind, hand ] }\n",
                              "registry: { address: 'unix:///run/redis', user: lab, "
                              "password_file: keys/redis }\n"));
  REQUIRE(shared.diagnostics.empty());
  CHECK(shared.spec.registry->text == "unix:///run/redis");
  CHECK(shared.spec.registry_user->text == "lab");
  CHECK(shared.spec.registry_password->text == "keys/redis");
  CHECK(is_cluster("cluster: 1"));
  CHECK_FALSE(is_cluster("sluice: 1"));
}

TEST_CASE("a role may be on several machines, which calls take in the file's order") {
  LoadedCluster loaded =
      load_cluster("c.yaml", with_machines("  front: { home: true, roles: [ mind, hand ] }\n"
                                           "  one: { roles: [ ear, eye ] }\n"
                                           "  two: { roles: [ eye, ear ] }\n"));
  REQUIRE(loaded.diagnostics.empty());
  LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  const WorkflowSpec* specs[] = {&workflow.spec};
  CHECK(place_roles(loaded, specs) == Placement{{{1, 2}, {0}, {0}, {1, 2}}});
  CHECK(loaded.diagnostics.empty());
}

TEST_CASE("replicas that all run each set of inputs may be on as many machines as there are") {
  const auto placed = [](const std::function<void(WorkflowSpec&)>& change) {
    LoadedCluster loaded =
        load_cluster("c.yaml", with_machines("  front: { home: true, roles: [ mind, hand ] }\n"
                                             "  one: { roles: [ ear, eye ] }\n"
                                             "  two: { roles: [ eye, ear ] }\n"
                                             "  three: { roles: [ ear ] }\n"));
    LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
    workflow.spec.roles[0].balance = Balance::broadcast;
    workflow.spec.roles[3].colocate.reset();
    change(workflow.spec);
    const WorkflowSpec* specs[] = {&workflow.spec};
    const Placement placement = place_roles(loaded, specs);
    CHECK(placement[0][0] == std::vector<std::uint32_t>{1, 2, 3});
    std::string told;
    for (const Diagnostic& one : loaded.diagnostics)
      told += std::to_string(one.mark.line) + ":" + std::to_string(one.mark.column) + " " +
              one.code + " " + one.message + " | " + one.suggestion + "\n";
    return told;
  };
  CHECK(placed([](WorkflowSpec& spec) { spec.roles[0].replicas = 3; }).empty());
  CHECK(placed([](WorkflowSpec& spec) { spec.roles[0].replicas = 256; }).empty());
  CHECK(placed([](WorkflowSpec& spec) { spec.roles[0].replicas = 2; }) ==
        "7:21 too-few-replicas role 'ear' is on 3 machines, and its replicas are divided among "
        "them (`balance: broadcast`), but it has 2 replicas: none is left for 'three' | "
        "`replicas: 3` of the role, or more; or name it on fewer machines\n");
  CHECK(placed([](WorkflowSpec& spec) {
          spec.roles[0].replicas = 3;
          spec.roles[0].global_params = {{"own", {}}};
        }) ==
        "6:24 must-be-on-one-machine role 'ear' is on 'two' and on 'one' (line 5), and its "
        "replicas are divided among them (`balance: broadcast`), but they share 'own' in memory | "
        "put it on one machine\n");
  CHECK(
      placed([](WorkflowSpec& spec) {
        spec.roles[0].replicas = 3;
        spec.roles[3].colocate = Name{"ear", {}};
      })
          .starts_with("6:24 must-be-on-one-machine role 'ear' is on 'two' and on 'one' (line 5), "
                       "and its replicas are divided among them (`balance: broadcast`), but 'eye' "
                       "is colocated with 'ear' | put it on one machine, or remove `colocate`\n"));
}

TEST_CASE("roles on very many machines are refused where a call's number has no room") {
  std::string machines = "  front: { home: true, roles: [ mind, hand ] }\n";
  for (int i = 0; i < 200; ++i)
    machines += "  m" + std::to_string(i) + ": { roles: [ a, b, c ] }\n";
  LoadedCluster loaded = load_cluster("c.yaml", with_machines(machines));
  LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  std::vector<RoleSpec>& roles = workflow.spec.roles;
  const RoleSpec hand = roles[2], mind = roles[1];
  roles = {mind, hand, {}, {}, {}};
  for (std::size_t i = 0; i < 3; ++i) roles[2 + i].name.text = std::string(1, "abc"[i]);
  const WorkflowSpec* specs[] = {&workflow.spec};
  place_roles(loaded, specs);
  REQUIRE(loaded.diagnostics.size() == 1);
  CHECK(loaded.diagnostics[0].code == "too-many");
  CHECK(loaded.diagnostics[0].mark.line == 4);
}

TEST_CASE("a cluster file says what a host of roles may take") {
  const LoadedCluster loaded = load_cluster(
      "c.yaml",
      with_machines("  front:\n    home: true\n    roles: [ ear, eye, mind ]\n    hosts:\n"
                    "      senses: { roles: [ ear, eye ], memory: 4GiB, hang_after: 2s, "
                    "cores: [ 3, 0, 1023 ] }\n"
                    "      least: { roles: [ mind ], memory: 256MiB, hang_after: 10ms }\n"));
  REQUIRE(loaded.diagnostics.empty());
  REQUIRE(loaded.spec.machines[0].hosts.size() == 2);
  const ClusterHost& senses = loaded.spec.machines[0].hosts[0];
  CHECK(senses.name.text == "senses");
  CHECK(senses.roles.size() == 2);
  CHECK(senses.memory == std::uint64_t{4} << 30U);
  CHECK(senses.hang_after == std::chrono::seconds(2));
  CHECK(senses.cores == std::vector<std::uint32_t>{3, 0, 1023});
  const ClusterHost& least = loaded.spec.machines[0].hosts[1];
  CHECK(least.memory == host_memory_least);
  CHECK(least.hang_after == std::chrono::milliseconds(10));
  CHECK(least.cores.empty());
}

TEST_CASE("what a host may take that cannot be is told with its place and what to write") {
  const std::string memory_help =
      " | a whole number and MiB, GiB or TiB, as in memory: 4GiB; without a cgroup address space "
      "is counted, which is more than what is used of it";
  const std::string cores_help = " | cores by their numbers, from 0: cores: [ 0, 1 ]";
  const std::string hang_help =
      " | longer than its roles need to notice that they are cancelled: hang_after: 5s";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"{ roles: [ ear ], memory: 4GB }",
       "8:36 bad-memory memory of host 'a' is '4GB', which has a unit that is not known" +
           memory_help},
      {"{ roles: [ ear ], memory: 99999999999GiB }",
       "8:36 bad-memory memory of host 'a' is '99999999999GiB', which is too large" + memory_help},
      {"{ roles: [ ear ], memory: 255MiB }",
       "8:36 bad-memory memory of host 'a' is '255MiB', it must be 256MiB or more" + memory_help},
      {"{ roles: [ ear ], memory: 0 }",
       "8:36 bad-memory memory of host 'a' is '0', it must be 256MiB or more" + memory_help},
      {"{ roles: [ ear ], memory: [ 1GiB ] }",
       "8:36 wrong-kind memory must be a single value, this is a list | write one value, without "
       "the '-' or the [ ]"},
      {"{ roles: [ ear ], hang_after: 5 }",
       "8:40 bad-duration hang_after is '5', which is not a duration | write a whole number and "
       "ms, s or m, at most 60m: 500ms, 30s, 2m"},
      {"{ roles: [ ear ], hang_after: 9ms }",
       "8:40 bad-hang-after hang_after of host 'a' is '9ms', it must be from 10ms to 60m" +
           hang_help},
      {"{ roles: [ ear ], hang_after: 0s }",
       "8:40 bad-hang-after hang_after of host 'a' is '0s', it must be from 10ms to 60m" +
           hang_help},
      {"{ roles: [ ear ], hang_after: -1s }",
       "8:40 bad-hang-after hang_after of host 'a' is '-1s', it must be from 10ms to 60m" +
           hang_help},
      {"{ roles: [ ear ], hang_after: 61m }",
       "8:40 bad-hang-after hang_after of host 'a' is '61m', it must be from 10ms to 60m" +
           hang_help},
      {"{ roles: [ ear ], cores: 0-3 }",
       "8:35 wrong-kind cores of host 'a' must be a list, this is a single value" + cores_help},
      {"{ roles: [ ear ], cores: [] }", "8:35 no-cores host 'a' is bound to no core" + cores_help +
                                            "; without `cores` it runs on any"},
      {"{ roles: [ ear ], cores: [ 0, -1 ] }",
       "8:40 bad-number a core is '-1', it must be a whole number from 0 to 1023 | "},
      {"{ roles: [ ear ], cores: [ 1024 ] }",
       "8:37 bad-number a core is '1024', it must be a whole number from 0 to 1023 | "},
      {"{ roles: [ ear ], cores: [ 1, 0, 1 ] }",
       "8:43 same-core host 'a' has the core 1 already | name each core once"},
      {"{ roles: [ ear ], memori: 4GiB }",
       "8:28 unknown-key unknown key 'memori' in host 'a' | did you mean 'memory'?"},
      {"{ memory: 4GiB }",
       "8:10 no-roles host 'a' has no roles | name roles of machine 'front', or leave the host "
       "out"},
      {"{ roles: [] }",
       "8:19 no-roles host 'a' has no roles | name roles of machine 'front', or leave the host "
       "out"},
      {"{ roles: ear }",
       "8:19 wrong-kind roles must be a list, this is a single value | write [ ear ]"},
      {"{ roles: [ eer ] }",
       "8:21 not-here host 'a' has the role 'eer', which is not on machine 'front' | did you mean "
       "'ear'?"},
      {"ear",
       "8:10 wrong-kind host 'a' must be a list of roles or a map, this is a single value | a: [ "
       "ROLE ], or a: { roles: [ ROLE ], memory: 4GiB }"}};
  for (const auto& [host, words] : rows) {
    INFO(host);
    CHECK(mistake(with_machines("  front:\n    home: true\n    roles: [ ear, eye, mind, hand ]\n"
                                "    hosts:\n      a: " +
                                host + "\n")) == words);
  }
}

TEST_CASE("the mistakes of a cluster file that do not follow from one another are told at once") {
  const std::string front = "  front: { home: true, roles: [ ear, eye ] }\n";
  const std::string gpu = "  gpu: { roles: [ mind, hand ] }\n";
  const std::vector<std::pair<std::string, std::string>> rows{
      // Of the file itself, and of where its roles run.
      {with_machines(front + "  gpu: { roles: [ mind, hand, ear ] }\n", "lease: 10ms\nleese: 1\n"),
       "3:8 bad-lease, 4:1 unknown-key, 7:31 must-be-together"},
      {with_machines(front + "  gpu: { roles: [ mind ] }\n", "registry: redis\n"),
       "3:11 bad-registry, 5:3 placed-nowhere"},
      {with_machines(front + "  gpu: { roles: [ mind ], adress: x }\n  arm: { roles: [ hand ] }\n"),
       "5:27 unknown-key, 5:35 bad-address, 6:3 missing-address, 6:19 must-be-together"},
      // One mistake of a registry is one error.
      {with_machines(front + gpu, "registry: { address: private }\n"), "3:22 bad-registry"},
      {with_machines(front + gpu, "registry: { adress: 'unix:///run/r' }\n"), "3:13 unknown-key"},
      {with_machines(front + gpu, "registry: { address: 'unix:///run/r' }\n"), "3:11 missing-key"},
      // Of machines that are not there nothing is said to be missing.
      {"cluster: 1\nworkflows: [ two.yaml ]\nmachines: {}\n", "3:11 no-machines"},
      // One role is misspelt, and another is missing.
      {with_machines(front + "  gpu: { roles: [ hant ] }\n"),
       "4:3 placed-nowhere, 5:19 unknown-role"},
      // The machine of a name that is none is read, and its roles are placed.
      {with_machines(front + "  GPU: { roles: [ mind, hand ], lent: 1 }\n"),
       "5:3 bad-name, 5:33 unknown-key"},
      // What could not be read is nowhere said to be missing.
      {with_machines("  front: { home: yes, roles: [ ear, eye ] }\n" + gpu), "4:18 bad-choice"},
      {with_machines("  front: [ ear ]\n" + gpu), "4:10 wrong-kind"},
      {with_machines(front + "  gpu: { roles: mind }\n"), "5:17 wrong-kind"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ mind, hant ] } }\n"),
       "5:53 not-here"},
      {with_machines("  front: { home: true, address: [ 1 ], roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'tcp://127.0.0.1:1', roles: [ mind, hand ] }\n"),
       "4:33 wrong-kind"},
      {with_machines("  front: { home: true, address: 'tcp://10.0.0.1:1', roles: [ ear, eye, mind, "
                     "hand ] }\n",
                     "keys: [ k ]\n"),
       "3:7 wrong-kind"},
      {"cluster: 1\nworkflows: [ [ two.yaml ] ]\nmachines:\n  front: { home: true, roles: [ x ] "
       "}\n",
       "2:14 wrong-kind"}};
  for (const auto& [text, expected] : rows) {
    INFO(text);
    CHECK(all_mistakes(text) == expected);
  }
}

TEST_CASE("each mistake in a cluster file is shown at its place, with what to write") {
  const std::string front = "  front: { home: true, roles: [ ear, eye ] }\n";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"- a",
       "1:1 not-a-cluster a cluster file is a map, this is a list | begin with `cluster: 1`"},
      {"workflows: [ a ]\nmachines: { a: { home: true } }",
       "1:1 missing-key the file does not say that it is a cluster file | begin with `cluster: 1`"},
      {"cluster: 1\nworkflows: [ a ]\nmachines\n  a: { home: true }\n",
       "3:1 yaml-syntax a ':' is missing behind 'machines' | write a ':' behind it, and its value "
       "behind that or in the lines below"},
      {"cluster: 2\nworkflows: [ a ]\nmachines: { a: { home: true } }",
       "1:10 bad-number cluster is '2', it must be 1 | "},
      {"cluster: 1\nmachines: { a: { home: true } }",
       "1:1 missing-key the cluster names no workflow | workflows: [ FILE ], relative to this "
       "file"},
      {"cluster: 1\nworkflows: [ a ]",
       "1:1 missing-key the cluster has no machines | machines: { front: { home: true, roles: [ "
       "ROLE ] } }"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "leese: 3s\n"),
       "3:1 unknown-key unknown key 'leese' in a cluster | did you mean 'lease'?"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "lease: 10ms\n"),
       "3:8 bad-lease lease is '10ms', it must be from 60ms to 60m | 3s is what stands for most "
       "networks"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "lease: -3s\n"),
       "3:8 bad-lease lease is '-3s', it must be from 60ms to 60m | 3s is what stands for most "
       "networks"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "lease: 0s\n"),
       "3:8 bad-lease lease is '0s', it must be from 60ms to 60m | 3s is what stands for most "
       "networks"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n  arm: { }\n"),
       "6:3 idle-machine machine 'arm' has no role to run | give it `roles`, or remove it"},
      {with_machines("  front: { home: true, address: 'tcp://10.0.0.1:1', roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'tcp://10.0.0.2:1', roles: [ mind, hand ] }\n"),
       "4:33 missing-keys 'tcp://10.0.0.1:1' can be reached from elsewhere, and there are no keys "
       "| "
       "keys: FOLDER; `sluice keys FOLDER --machine NAME` makes them"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "lease: 2000m\n"),
       "3:8 bad-duration lease is '2000m', which is more than 60m | write a whole number and ms, "
       "s "
       "or m, at most 60m: 500ms, 30s, 2m"},
      {"cluster: 1\nworkflows: [ a/x, b, ./a/../a/x ]\nmachines: { a: { home: true } }",
       "2:22 same-workflow workflow './a/../a/x' is named already (line 2) | name each workflow "
       "once: any number of calls run in it"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "registry: redis\n"),
       "3:11 bad-registry registry is 'redis', it must be none, private or a Redis server's "
       "address "
       "on each machine itself | unix:///PATH, tcp://127.0.0.1:PORT or tcp://[::1]:PORT; where "
       "other computers are to reach it: { address: unix:///PATH, at: MACHINE, forward: "
       "tcp://HOST:PORT }"},
      {with_machines("  front: { home: true, address: 'tcp://127.0.0.1:1', roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'tcp://10.0.0.2:1', roles: [ mind, hand ] }\n",
                     "registry: private\nkeys: k\n"),
       "3:11 bad-registry a private registry is reached on one computer only, and machine 'gpu' is "
       "elsewhere | name a shared Redis server: { address: unix:///PATH, at: MACHINE, forward: "
       "tcp://HOST:PORT }, MACHINE being the one that has it"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n",
                     "registry: { address: private, user: lab, password_file: k }\n"),
       "3:22 bad-registry a registry that is private has no user and no password | registry: "
       "private"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n",
                     "registry: { address: 'unix:///s', password_file: k }\n"),
       "3:11 missing-key the registry has no user | registry: { address: unix:///PATH, user: NAME, "
       "password_file: FILE }, or the address alone where the server asks for no password"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n",
                     "registry: { address: 'unix:///s' }\n"),
       "3:11 missing-key the registry has no user and no password_file | registry: { address: "
       "unix:///PATH, user: NAME, password_file: FILE }, or the address alone where the server "
       "asks "
       "for no password"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n", "registry: {}\n"),
       "3:11 missing-key the registry has no address, no user and no password_file | registry: { "
       "address: unix:///PATH, user: NAME, password_file: FILE }, or the address alone where the "
       "server asks for no password"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n",
                     "registry: { address: 'unix:///s', user: 'a b', password_file: k }\n"),
       "3:41 bad-registry the registry's user is 'a b', it must be 1 to 64 printable characters "
       "without spaces | the name behind `ACL SETUSER` on the server"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ] }\n",
                     "registry: { address: 'unix:///s', user: [ a ], password_file: k }\n"),
       "3:41 wrong-kind the registry's user must be a single value, this is a list | write one "
       "value, without the '-' or the [ ]"},
      {with_machines("  front: { roles: [ ear, eye, mind, hand ] }\n"),
       "4:3 no-home no machine is a home, where calls begin | write `home: true` in one of the "
       "machines"},
      {with_machines(front + "  gpu: { keeper: true, roles: [ mind ] }\n"
                             "  arm: { keeper: true, roles: [ hand ] }\n"),
       "6:3 two-keepers 'arm' and 'gpu' (line 5) both keep the list of who is there | one machine "
       "keeps it: remove `keeper: true` from the others"},
      {with_machines(front + "  gpu: { roles: [ mind, hand, ear ] }\n"),
       "5:31 must-be-together role 'ear' is on 'gpu' and 'eye' on 'front' (line 4), but 'eye' is "
       "colocated with 'ear' | put both on the same machines"},
      {with_machines("  front: { home: true, roles: [ ear ] }\n"
                     "  gpu: { roles: [ mind, hand, ear, eye ] }\n"),
       "4:33 must-be-together role 'ear' is on 'front' and 'eye' on 'gpu' (line 5), but 'eye' is "
       "colocated with 'ear' | put both on the same machines"},
      {with_machines(front + "  gpu: { roles: [ mind, hand, mind ] }\n"),
       "5:31 placed-twice role 'mind' is on 'gpu' already (line 5) | name it once on each machine; "
       "how many run there is `replicas` of the role"},
      {with_machines(front + "  gpu: { roles: [ mind, hand, ear, eye ], hosts: { a: [ ear ] } }\n"),
       "5:52 must-be-together role 'ear' is in host 'a' and 'eye' in no host, but 'eye' is "
       "colocated with 'ear' | put both in one host, or neither"},
      {with_machines(front +
                     "  gpu: { roles: [ mind, hand ] }\n  cpu: { roles: [ mind, hand ] }\n"),
       "6:19 must-be-on-one-machine role 'mind' is on 'cpu' and on 'gpu' (line 5), but its 'kv' is "
       "in the memory of one | put it on one machine: its pages do not travel"},
      {with_machines(front + "  gpu: { roles: [ mind, hant ] }\n"),
       "5:25 unknown-role no workflow has a role 'hant' | did you mean 'hand'?"},
      {with_machines(front + "  gpu: { roles: [ mind ] }\n"),
       "4:3 placed-nowhere role 'hand' of two.yaml is on no machine | add it to the `roles` of a "
       "machine"},
      {with_machines(front + "  gpu: { roles: [ mind ] }\n  arm: { roles: [ hand ] }\n"),
       "6:19 must-be-together role 'hand' is on 'arm' and 'mind' on 'gpu' (line 5), but they share "
       "'kv' in memory | put both on one machine"},
      {with_machines(
           "  front: { home: true, roles: [ ear ] }\n  gpu: { roles: [ mind, hand, eye ] }\n"),
       "5:31 must-be-together role 'eye' is on 'gpu' and 'ear' on 'front' (line 4), but 'eye' "
       "is colocated with 'ear' | put both on one machine"},
      {with_machines("  front: { home: true, address: 'tcp://127.0.0.1:1', roles: [ ear, eye ] }\n"
                     "  gpu: { roles: [ mind, hand ] }\n"),
       "5:3 missing-address 'gpu' has no address, and 'front' (line 4) has one | give each machine "
       "an "
       "address, or none: then all are processes of this machine"},
      {with_machines("  front: { home: true, address: 'tcp://127.0.0.1:1', roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'tcp://10.0.0.2:1', roles: [ mind, hand ] }\n"),
       "5:19 missing-keys 'tcp://10.0.0.2:1' can be reached from elsewhere, and there are no keys "
       "| "
       "keys: FOLDER; `sluice keys FOLDER --machine NAME` makes them"},
      {with_machines("  front: { home: true, address: 'tcp://*:1', roles: [ ear, eye ] }\n",
                     "keys: k\n"),
       "5:33 bad-address 'tcp://*:1' would be open to every network | write the one address at "
       "which "
       "the others reach this machine"},
      {with_machines("  front: { home: true, address: '10.0.0.2', roles: [ ear, eye ] }\n",
                     "keys: k\n"),
       "5:33 bad-address '10.0.0.2' is no address | tcp://HOST:PORT with the host as a number, or "
       "ipc:///FOLDER/NAME"},
      {with_machines("  front: { home: true, address: 'ipc:///a/b', roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'ipc:///a/b', roles: [ mind, hand ] }\n"),
       "5:19 same-address 'front' (line 4) and 'gpu' (line 5) have the same address | each machine "
       "listens at one of its own"},
      {with_machines("  front: { home: true, address: 'ipc:///a/b', pages: 'ipc:///a//b', roles: "
                     "[ ear, eye ] }\n"
                     "  gpu: { address: 'ipc:///a/c', roles: [ mind, hand ] }\n"),
       "4:54 same-address 'front' (line 4) has one address for its messages and its pages | "
       "`pages` of its own, at another port or file"},
      {with_machines("  front: { home: true, address: 'ipc:///a/b', roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'ipc:///a/b.memory', roles: [ mind, hand ] }\n"),
       "5:19 same-address 'ipc:///a/b.memory' is where 'front' (line 4) hands out its memory | "
       "another name: each machine has a socket ADDRESS.memory beside its own"},
      {with_machines("  front: { home: true, address: 'ipc:///a/b', pages: 'ipc:///a/p', roles: "
                     "[ ear, eye ] }\n"
                     "  gpu: { address: 'ipc:///a//p.region', roles: [ mind, hand ] }\n"),
       "5:19 same-address 'ipc:///a//p.region' is where 'front' (line 4) hands out its pages | "
       "another name: each machine has a socket ADDRESS.region beside its own for pages"},
      {with_machines("  front: { home: true, address: 'ipc:///a/b', roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'ipc:///a/b.region', roles: [ mind, hand ] }\n"),
       ""},
      {with_machines(front + "  registry: { roles: [ mind, hand ] }\n", "registry: private\n"),
       "6:3 bad-name machine 'registry' has the name of the private registry's process | another "
       "name, so that `sluice up` and `sluice status` tell the two apart"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ hant ] } }\n"),
       "5:47 not-here host 'a' has the role 'hant', which is not on machine 'gpu' | did you mean "
       "'hand'?"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ ear ] } }\n"),
       "5:47 not-here host 'a' has the role 'ear', which is not on machine 'gpu' | name it in the "
       "machine's `roles` too"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [] } }\n"),
       "5:45 no-roles host 'a' has no roles | name roles of machine 'gpu', or leave the host out"},
      {with_machines(front +
                     "  gpu: { roles: [ mind, hand ], hosts: { a: [ mind ], b: [ hand, mind ] } "
                     "}\n"),
       "5:66 hosted-twice role 'mind' is in host 'a' already | each role runs in one process"},
      {with_machines(front +
                     "  gpu: { roles: [ mind, hand ], hosts: { a: [ mind ], b: [ hand ] } }\n"),
       "5:55 must-be-together role 'mind' is in host 'a' and 'hand' in host 'b', but they share "
       "'kv' in memory | put both in one host, or neither"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ hand ] } }\n"),
       "5:42 must-be-together role 'mind' is in no host and 'hand' in host 'a', but they share "
       "'kv' in memory | put both in one host, or neither"},
      {with_machines("  front: { home: true, roles: [ ear, eye ], hosts: { a: [ eye ] } }\n"
                     "  gpu: { roles: [ mind, hand ] }\n"),
       "4:54 must-be-together role 'ear' is in no host and 'eye' in host 'a', but 'eye' is "
       "colocated with 'ear' | put both in one host, or neither"},
      {with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: [ mind ] }\n"),
       "5:40 wrong-kind hosts must be a map, this is a list | write `name: value` without the '-' "
       "or the "
       "[ ]"}};
  for (const auto& [text, words] : rows) {
    INFO(text);
    CHECK(mistake(text) == words);
  }
}

TEST_CASE("roles over one parameter may be in several processes where that is shared by them") {
  const WhyInOneProcess need_not = [](const GlobalParamSpec& param) {
    return param.name.text == "kv" ? "" : "another";
  };
  const WhyInOneProcess have_to = [](const GlobalParamSpec&) { return "it is in a folder"; };
  const std::string front = "  front: { home: true, roles: [ ear, eye ] }\n";
  const std::string apart = with_machines(
      front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ mind ], b: [ hand ] } }\n");
  const std::string one =
      with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ hand ] } }\n");
  CHECK(mistake(apart, {}, need_not).empty());
  CHECK(mistake(one, {}, need_not).empty());
  CHECK(mistake(apart, {}, have_to) ==
        "5:55 must-be-together role 'mind' is in host 'a' and 'hand' in host 'b', but they share "
        "'kv' in memory | put both in one host, or neither: it is in a folder");
  // What runs on one lane is in one process all the same.
  CHECK(
      mistake(with_machines("  front: { home: true, roles: [ ear, eye ], hosts: { a: [ eye ] } }\n"
                            "  gpu: { roles: [ mind, hand ] }\n"),
              {}, need_not) ==
      "4:54 must-be-together role 'ear' is in no host and 'eye' in host 'a', but 'eye' is "
      "colocated with 'ear' | put both in one host, or neither");
}

TEST_CASE("pages may be shared over machines that have a way to them") {
  const WhyNotShared can = [](const RoleSpec&, const RoleSpec&, const GlobalParamSpec& param) {
    return param.name.text == "kv" ? "" : "another";
  };
  const WhyNotShared cannot = [](const RoleSpec&, const RoleSpec&, const GlobalParamSpec&) {
    return "it draws";
  };
  const std::string front = "  front: { home: true, roles: [ ear, eye ] }\n";
  const std::string apart =
      with_machines(front + "  gpu: { roles: [ mind ] }\n  cpu: { roles: [ hand ] }\n");
  CHECK(mistake(apart, can).empty());
  CHECK(mistake(apart, cannot) ==
        "6:19 must-be-together role 'hand' is on 'cpu' and 'mind' on 'gpu' (line 5), but they "
        "share 'kv' in memory | put both on one machine: it draws");
  CHECK(mistake(with_machines(front + "  gpu: { roles: [ mind ] }\n"
                                      "  cpu: { roles: [ hand ], hosts: { models: [ hand ] } }\n"),
                can) ==
        "6:36 must-be-in-no-host role 'hand' is in host 'models', but it shares 'kv' with another "
        "machine | leave it out of the hosts");
  const auto over_tcp = [&](const std::string& gpu, const std::string& cpu) {
    const std::string local = "tcp://127.0.0.1:";
    return mistake(
        with_machines("  front: { home: true, roles: [ ear, eye ], address: " + local + "1 }\n" +
                      "  gpu: { roles: [ mind ], address: " + local + "2" + gpu + " }\n" +
                      "  cpu: { roles: [ hand ], address: " + local + "3" + cpu + " }\n"),
        can);
  };
  CHECK(over_tcp(", pages: tcp://127.0.0.1:4", ", pages: tcp://127.0.0.1:5").empty());
  // One role on several machines: so do its own.
  const auto several = [&](const std::string& cpu) {
    return with_machines(front + "  gpu: { roles: [ mind, hand ] }\n  cpu: { roles: [ mind" + cpu +
                         " }\n");
  };
  CHECK(mistake(several(", hand ]"), can).empty());
  CHECK(mistake(several(" ]"), can).empty());
  CHECK(mistake(several(" ]"), cannot) ==
        "6:19 must-be-on-one-machine role 'mind' is on 'cpu' and on 'gpu' (line 5), but its 'kv' "
        "is in the memory of one | put it on one machine: it draws");
  CHECK(mistake(several(" ], hosts: { models: [ mind ] }"), can) ==
        "6:36 must-be-in-no-host role 'mind' is in host 'models', but it shares 'kv' with another "
        "machine | leave it out of the hosts");
  CHECK(over_tcp(", pages: tcp://127.0.0.1:4", "") ==
        "6:3 missing-pages machine 'cpu' shares 'kv' with another machine, which has no way to its "
        "pages | pages: tcp://HOST:PORT, with another port than its address");
  CHECK(over_tcp(", pages: tcp://127.0.0.1:4", ", pages: tcp://127.0.0.1:4").find("same-address") !=
        std::string::npos);
  CHECK(over_tcp(", pages: tcp://127.0.0.1:2", "").find("same-address") != std::string::npos);
  CHECK(over_tcp(", pages: tcp://10.0.0.1:4", "").find("missing-keys") != std::string::npos);
  // What others publish may come before it is asked for, where there are others.
  const auto preloads = [&](const std::string& roles) {
    return with_machines(front + "  gpu: { roles: [ mind" + roles +
                         " }\n  cpu: { roles: [ hand ], pages: { preload: true } }\n");
  };
  CHECK(mistake(preloads(" ]"), can).empty());
  CHECK(mistake(preloads(" ], pages: { preload: false }"), can).empty());
  CHECK(mistake(preloads(" ]"), cannot).find("must-be-together") != std::string::npos);
  CHECK(mistake(with_machines("  front: { home: true, roles: [ ear, eye ], pages: { preload: true "
                              "} }\n  gpu: { roles: [ mind, hand ] }\n"),
                can) ==
        "4:63 nothing-to-preload machine 'front' preloads pages, and shares none with another "
        "machine | leave `preload` out, or put a role over the same `paged_kv` on another machine "
        "too");
  CHECK(mistake(with_machines("  front: { home: true, pages: tcp://127.0.0.1:4 }\n"))
            .find("bad-address 'front' has an address for its pages") != std::string::npos);
}

}  // namespace sluice
