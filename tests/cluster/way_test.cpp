// By which way a machine's pages come: what is read of it, and every mistake with its place.
#include <catch2/catch.hpp>

#include "workflows/cluster.h"

namespace sluice {

namespace {

constexpr const char* local = "tcp://127.0.0.1:1";

LoadedCluster loaded(const std::string& pages, const std::string& address = local,
                     const std::string& more = "") {
  return load_cluster("c.yaml", "cluster: 1\nworkflows: [ two.yaml ]\n" + more +
                                    "machines:\n  front:\n    home: true\n    address: " + address +
                                    "\n    roles: [ ear ]\n    pages: " + pages + "\n");
}

/// Of the first as `line:column code message | suggestion`; empty: none.
std::string mistake(const std::string& pages, const std::string& address = local,
                    const std::string& more = "") {
  const LoadedCluster cluster = loaded(pages, address, more);
  if (cluster.diagnostics.empty()) return "";
  const Diagnostic& d = cluster.diagnostics.front();
  return std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + " " + d.code + " " +
         d.message + " | " + d.suggestion;
}

}  // namespace

TEST_CASE("pages come over their address unless the file says ucx") {
  CHECK_FALSE(loaded("tcp://127.0.0.1:2").spec.machines[0].ucx.has_value());
  for (const char* by : {"", ", by: message"}) {
    const LoadedCluster cluster = loaded("{ address: tcp://127.0.0.1:2" + std::string(by) + " }");
    CHECK(cluster.diagnostics.empty());
    CHECK(cluster.spec.machines[0].pages->text == "tcp://127.0.0.1:2");
    CHECK_FALSE(cluster.spec.machines[0].ucx.has_value());
    // Others may read them where they stand, unless the file says message.
    CHECK(cluster.spec.machines[0].pages_in_messages == !std::string(by).empty());
  }
  CHECK_FALSE(loaded("tcp://127.0.0.1:2").spec.machines[0].pages_in_messages);
  CHECK_FALSE(loaded("{ address: tcp://127.0.0.1:2, by: ucx }").spec.machines[0].pages_in_messages);
  const LoadedCluster here = loaded("{ address: tcp://127.0.0.1:2, by: ucx }");
  CHECK(here.diagnostics.empty());
  REQUIRE(here.spec.machines[0].ucx.has_value());
  CHECK_FALSE(here.spec.machines[0].ucx->devices.has_value());
  const LoadedCluster there =
      loaded("{ address: tcp://10.0.0.1:2, by: ucx, fabric: trusted, devices: \"mlx5_0:1,eth1\" }",
             "tcp://10.0.0.1:1", "keys: secret\n");
  CHECK(there.diagnostics.empty());
  REQUIRE(there.spec.machines[0].ucx.has_value());
  CHECK(there.spec.machines[0].ucx->devices->text == "mlx5_0:1,eth1");
  // Machines without addresses are processes of this computer.
  const LoadedCluster plain = load_cluster("c.yaml",
                                           "cluster: 1\nworkflows: [ two.yaml ]\nmachines:\n"
                                           "  front: { home: true, roles: [ ear ], pages: "
                                           "{ by: ucx } }\n");
  CHECK(plain.diagnostics.empty());
  CHECK(plain.spec.machines[0].ucx.has_value());
  CHECK_FALSE(plain.spec.machines[0].pages.has_value());
}

TEST_CASE("a machine preloads where its pages say so") {
  CHECK_FALSE(loaded("{ address: tcp://127.0.0.1:2 }").spec.machines[0].preload.has_value());
  CHECK_FALSE(loaded("{ preload: false }").spec.machines[0].preload.has_value());
  for (const char* more : {"", ", by: message", ", by: ucx", ", address: tcp://127.0.0.1:2"}) {
    const LoadedCluster cluster = loaded("{ preload: true" + std::string(more) + " }");
    CHECK(cluster.diagnostics.empty());
    CHECK(cluster.spec.machines[0].preload.has_value());
  }
  CHECK(mistake("{ preload: maybe }") ==
        "8:23 bad-choice preload cannot be 'maybe' (true, false) | ");
  CHECK(mistake("{ preloads: true }").find("unknown-key") != std::string::npos);
}

TEST_CASE("ucx over a network is refused unless somebody says that it is trusted") {
  const std::string refused =
      "untrusted-fabric the pages of 'front' come by ucx, which proves nobody and encrypts "
      "nothing, and the machine is reached over a network";
  const std::string keys = "keys: secret\n";
  for (const auto& [pages, address] :
       {std::pair{"{ address: tcp://10.0.0.1:2, by: ucx }", "tcp://10.0.0.1:1"},
        std::pair{"{ address: tcp://10.0.0.1:2, by: ucx }", local},
        std::pair{"{ address: tcp://127.0.0.1:2, by: ucx }", "tcp://10.0.0.1:1"}})
    CHECK(mistake(pages, address, keys).find("9:12 " + refused) == 0);
}

TEST_CASE("what cannot be said of pages is refused with its place") {
  CHECK(mistake("{ by: rdma }") == "8:18 bad-choice by cannot be 'rdma' (message, ucx) | ");
  CHECK(mistake("{ by: ucx, fabric: open, devices: eth0 }").find("bad-choice fabric cannot be") !=
        std::string::npos);
  for (const char* half : {"{ by: ucx, fabric: trusted }", "{ by: ucx, devices: eth0 }"})
    CHECK(mistake(half).find("8:12 bad-pages the pages of 'front' have one of `devices` and "
                             "`fabric: trusted` | both") == 0);
  CHECK(mistake("{ devices: eth0, fabric: trusted }")
            .find("8:12 bad-pages the pages of 'front' have `devices` or `fabric`, and do not "
                  "come by ucx") == 0);
  for (const char* devices : {"\"\"", "all", "\"a b\""})
    CHECK(mistake("{ by: ucx, fabric: trusted, devices: " + std::string(devices) + " }")
              .find("bad-pages the pages of 'front' come over devices") != std::string::npos);
  CHECK(mistake("{ by: ucx, device: eth0 }").find("unknown-key") != std::string::npos);
  CHECK(mistake("[ ucx ]").find("wrong-kind") != std::string::npos);
}

}  // namespace sluice
