// Cluster files: mistakes that are told once each, and mean one thing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/file_mistakes.h"

namespace sluice {

TEST_CASE("a control byte in a path or an address is one error, at its value") {
  const std::string front = "  front: { home: true, roles: [ ear, eye ] }\n";
  const std::string gpu = "  gpu: { roles: [ mind, hand ] }\n";
  const std::string login = "registry: { address: ";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"cluster: 1\nworkflows: [ \"two.yaml\\0x\" ]\nmachines:\n" + front + gpu, "2:14"},
      {with_machines(front + gpu, "keys: \"../k/other\\0zzz\"\n"), "3:7"},
      {with_machines(front + gpu, "registry: \"unix:///run/r\\0zzz\"\n"), "3:11"},
      {with_machines(front + gpu, login + "\"unix:///r\\e\", user: u, password_file: k }\n"),
       "3:22"},
      {with_machines(front + gpu, login + "'unix:///r', user: u, password_file: \"pw\\0z\" }\n"),
       "3:59"},
      {with_machines("  front: { home: true, address: \"ipc:///tmp/zz/a\\nb\", roles: [ ear, eye, "
                     "mind, hand ] }\n"),
       "4:33"},
      {with_machines("  front: { home: true, address: \"ipc:///tmp/zz/a\\0\", pages: 'ipc:///p', "
                     "roles: [ ear, eye ] }\n"
                     "  gpu: { address: 'ipc:///tmp/zz/b', roles: [ mind, hand ] }\n"),
       "4:33"},
      {with_machines(
           "  gpu: { home: true, address: 'ipc:///a', pages: { address: \"ipc:///p\\x7f\" "
           "}, roles: [ ear, eye, mind, hand ] }\n"),
       "4:61"}};
  for (const auto& [text, place] : rows) {
    INFO(text);
    CHECK(all_mistakes(text) == place + " control-byte");
  }
  CHECK(mistake(rows[5].first) ==
        "4:33 control-byte an address has a control byte: 'ipc:///tmp/zz/a\nb' | write it in one "
        "line, without what \\0, \\n or \\e stand for");
}

TEST_CASE("what no role can be called is told once, with the role that was meant") {
  const std::string gpu = "  gpu: { roles: [ mind, hand ] }\n";
  const std::string front = "  front: { home: true, roles: [ ear, eye ] }\n";
  const auto told = [](const std::string& role) {
    LoadedCluster loaded = load_cluster("c.yaml", with_machines("  front: { home: true, roles: [ " +
                                                                role + ", eye, mind, hand ] }\n"));
    const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
    const WorkflowSpec* specs[] = {&workflow.spec};
    place_roles(loaded, specs);
    REQUIRE(loaded.diagnostics.size() == 1);
    const Diagnostic& d = loaded.diagnostics.front();
    return d.code + " " + d.message + " | " + d.suggestion;
  };
  CHECK(told("Ear") == "bad-name 'Ear' cannot be a role's name | did you mean 'ear'?");
  CHECK(told("Loudspeaker") ==
        "bad-name 'Loudspeaker' cannot be a role's name | names are lower-case letters, digits and "
        "_, and begin with a letter");
  CHECK(all_mistakes(with_machines("  front: { home: true, roles: [ Ear, eye ] }\n" + gpu)) ==
        "4:33 bad-name");
  // In a host, where the machine has it under that name and where not.
  CHECK(all_mistakes(with_machines(
            front + "  gpu: { roles: [ Mind, hand ], hosts: { a: [ Mind, hand ] } }\n")) ==
        "5:19 bad-name");
  const std::string hosted =
      with_machines(front + "  gpu: { roles: [ mind, hand ], hosts: { a: [ Mind, hand ] } }\n");
  CHECK(all_mistakes(hosted) == "5:47 not-here");
  CHECK(mistake(hosted) ==
        "5:47 not-here host 'a' has the role 'Mind', which is not on machine 'gpu' | did you mean "
        "'mind'?");
}

TEST_CASE("an address that is none is that one error, without keys too") {
  const std::string one = " | write the one address at which the others reach this machine";
  const std::string number = ": a numeric address is needed | ";
  const std::string ports = " | tcp://HOST:PORT with the host as a number";
  const std::string path = " | ipc:///FOLDER/NAME, in a folder of your own with mode 0700";
  const auto with = [](const std::string& address, const std::string& more = "") {
    return with_machines(
        "  front: { home: true, address: '" + address + "', roles: [ ear, eye, mind, hand ] }\n",
        more);
  };
  const std::vector<std::pair<std::string, std::string>> rows{
      {"tcp://localhost:7001", number + "as in tcp://127.0.0.1:5000 or tcp://[::1]:5000"},
      {"tcp://999.0.0.1:7001", number + "as in tcp://127.0.0.1:5000 or tcp://[::1]:5000"},
      {"tcp://127.1:7001", number + "as in tcp://127.0.0.1:5000 or tcp://[::1]:5000"},
      {"tcp://[::g]:7001", number + "an IPv6 address in the brackets, as in tcp://[::1]:5000"},
      {"tcp://::1:7001", number + "tcp://[::1]:7001"},
      {"tcp://0.0.0.0:7001", " would be open to every network" + one},
      {"tcp://[::]:7001", " would be open to every network" + one},
      {"tcp://224.0.0.1:7001", " is no machine's: it stands for many" + one},
      {"tcp://239.9.9.9:7001", " is no machine's: it stands for many" + one},
      {"tcp://255.255.255.255:7001", " is no machine's: it stands for many" + one},
      {"tcp://[ff02::1]:7001", " is no machine's: it stands for many" + one},
      {"tcp://[::ffff:10.0.0.1]:7001",
       " is an IPv4 address in IPv6 | write the IPv4 address itself"},
      {"tcp://127.0.0.1", ": the port is missing" + ports},
      {"tcp://[::1]", ": the port is missing" + ports},
      {"tcp://127.0.0.1:0", ": the port must be a number from 1 to 65535" + ports},
      {"tcp://127.0.0.1:65536", ": the port must be a number from 1 to 65535" + ports},
      {"tcp://127.0.0.1:1x", ": the port must be a number from 1 to 65535" + ports},
      {"tcp://127.0.0.1:07001", ": the port begins with a zero | tcp://127.0.0.1:7001"},
      {"ipc://a/b", ": a path from the root is needed" + path},
      {"ipc:///a/..", ": it names no file" + path}};
  for (const auto& [address, words] : rows) {
    INFO(address);
    CHECK(mistake(with(address)) == "4:33 bad-address '" + address + "'" + words);
    CHECK(all_mistakes(with(address)) == "4:33 bad-address");
    CHECK(all_mistakes(with(address, "registry: private\n")) == "5:33 bad-address");
  }
  for (const char* local :
       {"tcp://[0:0:0:0:0:0:0:1]:7002", "tcp://[::1]:7002", "tcp://127.9.8.7:1", "ipc:///a/b"})
    CHECK(mistake(with(local)).empty());
  for (const char* far : {"tcp://10.0.0.1:1", "tcp://[fe80::1]:1", "tcp://223.255.255.255:65535"})
    CHECK(all_mistakes(with(far)) == "4:33 missing-keys");
}

TEST_CASE("one address in two spellings is given twice") {
  const auto both = [](const std::string& first, const std::string& second) {
    return all_mistakes(with_machines("  front: { home: true, address: '" + first +
                                      "', roles: [ ear, eye ] }\n  gpu: { address: '" + second +
                                      "', roles: [ mind, hand ] }\n"));
  };
  CHECK(both("ipc:///tmp/zz/a", "ipc:///tmp/zz/../zz/a") == "5:19 same-address");
  CHECK(both("ipc:///tmp/zz/a", "ipc:///tmp//zz/./a") == "5:19 same-address");
  CHECK(both("tcp://[::1]:7", "tcp://[0:0:0:0:0:0:0:1]:7") == "5:19 same-address");
  CHECK(both("tcp://127.0.0.1:7001", "tcp://127.0.0.1:07001") == "5:19 bad-address");
  CHECK(both("tcp://127.0.0.1:7001", "tcp://127.0.0.2:7001").empty());
  // Each has a socket for its memory beside its address.
  CHECK(both("ipc:///tmp/zz/a", "ipc:///tmp/zz//a.memory") == "5:19 same-address");
  CHECK(both("ipc:///tmp/zz/a.memory", "ipc:///tmp/zz/a") == "4:33 same-address");
  CHECK(both("ipc:///tmp/zz/a", "ipc:///tmp/zz/a.memories").empty());
  CHECK(both("tcp://localhost:1", "tcp://localhost:1") == "4:33 bad-address, 5:19 bad-address");
}

TEST_CASE("two workflows of one name are refused at the second, with both files") {
  LoadedCluster loaded =
      load_cluster("c.yaml",
                   "cluster: 1\nworkflows: [ two.yaml, copy/two.yaml ]\nmachines:\n"
                   "  front: { home: true, roles: [ ear, eye, mind, hand ] }\n");
  const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  LoadedWorkflow copy = load_workflow("copy/two.yaml", workflow_text);
  const WorkflowSpec* specs[] = {&workflow.spec, &copy.spec};
  place_roles(loaded, specs);
  REQUIRE(loaded.diagnostics.size() == 1);
  const Diagnostic& d = loaded.diagnostics.front();
  CHECK(d.code == "same-name");
  CHECK(d.mark.line == 2);
  CHECK(d.mark.column == 24);
  CHECK(d.message ==
        "the workflow of 'copy/two.yaml' is called 'two', as that of 'two.yaml' is (line 2)");
  loaded.diagnostics.clear();
  copy.spec.name.text = "three";
  place_roles(loaded, specs);
  CHECK(loaded.diagnostics.empty());
}

TEST_CASE("two roles that are apart are told once, whatever they should be together for") {
  const auto told = [](const std::string& machines) {
    LoadedCluster loaded = load_cluster("c.yaml", with_machines(machines));
    REQUIRE(loaded.diagnostics.empty());
    LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
    std::vector<RoleSpec>& roles = workflow.spec.roles;
    roles[1].colocate = Name{"hand", {}};  // mind, with which it shares pages too
    const WorkflowSpec* specs[] = {&workflow.spec};
    place_roles(loaded, specs);
    std::string all;
    for (const Diagnostic& d : loaded.diagnostics) all += d.code + " " + d.message + "\n";
    return all;
  };
  CHECK(told("  front: { home: true, roles: [ ear, eye, mind ] }\n  gpu: { roles: [ hand ] }\n") ==
        "must-be-together role 'mind' is on 'front' and 'hand' on 'gpu' (line 5), but 'mind' is "
        "colocated with 'hand'\n");
  CHECK(
      told("  front: { home: true, roles: [ ear, eye, mind, hand ], hosts: { a: [ mind ] } }\n") ==
      "must-be-together role 'hand' is in no host and 'mind' in host 'a', but 'mind' is "
      "colocated with 'hand'\n");
  // Each other pair is told by itself.
  const std::string two =
      told("  front: { home: true, roles: [ ear, mind ] }\n  gpu: { roles: [ eye, hand ] }\n");
  CHECK(std::ranges::count(two, '\n') == 2);
}

TEST_CASE("a role that no machine can run is an error where it is placed first") {
  LoadedCluster loaded =
      load_cluster("c.yaml", with_machines("  front: { home: true, roles: [ mind, hand, ear, eye ] "
                                           "}\n"
                                           "  gpu: { roles: [ ear, eye ] }\n"));
  REQUIRE(loaded.diagnostics.empty());
  const LoadedWorkflow workflow = load_workflow("two.yaml", workflow_text);
  const WorkflowSpec* specs[] = {&workflow.spec};
  const auto why_not = [](const RoleSpec& role) {
    return role.name.text == "ear" ? role.plugin.text + " runs nowhere" : std::string();
  };
  place_roles(loaded, specs, {}, why_not);
  REQUIRE(loaded.diagnostics.size() == 1);
  const Diagnostic& d = loaded.diagnostics.front();
  CHECK(d.code == "cannot-run");
  CHECK(d.mark.line == 4);
  CHECK(d.mark.column == 45);
  CHECK(d.message == "role 'ear' of two.yaml: scripted runs nowhere");
}

TEST_CASE("an address that many machines have is one error, which names them all") {
  std::string machines;
  for (const char* name : {"front", "gpu", "arm", "eye"})
    machines += "  " + std::string(name) + ": { address: 'ipc:///a/b', roles: [] }\n";
  machines += "  a: { address: 'ipc:///c', home: true }\n  b: { address: 'ipc:///c' }\n";
  const LoadedCluster loaded = load_cluster("c.yaml", with_machines(machines));
  std::vector<std::string> messages;
  for (const Diagnostic& d : loaded.diagnostics)
    messages.push_back(std::to_string(d.mark.line) + " " + d.message);
  CHECK(messages == std::vector<std::string>{
                        "5 'front' (line 4), 'gpu' (line 5), 'arm' (line 6) and 'eye' (line 7) "
                        "have the same address",
                        "9 'a' (line 8) and 'b' (line 9) have the same address"});
}

}  // namespace sluice
