// Where memory runs out amid a change, what was there is as it was, and the next change is made.
#include <catch2/catch.hpp>
#include <new>
#include <optional>
#include <string>

#include "counter.h"
#include "dataplane/numbered.h"
#include "dataplane/page_tenants.h"

using namespace sluice;

namespace {

/// Whether it came to its end, where so many times more memory is had.
template <typename Do>
bool ends_with(std::size_t memory, const Do& change) {
  bool has_ended = true;
  fail_behind(memory);
  try {
    change();
  } catch (const std::bad_alloc&) {
    has_ended = false;
  }
  fail_behind({});
  return has_ended;
}

}  // namespace

TEST_CASE("what is under way is numbered again behind memory that ran out") {
  bool has_ended = false;
  for (std::size_t memory = 0; !has_ended; ++memory) {
    INFO(memory);
    Numbered<int> numbered;
    has_ended = ends_with(memory, [&] { (void)numbered.add(1); });
    REQUIRE(numbered.empty() == !has_ended);
    const std::uint64_t number = numbered.add(2);
    REQUIRE(numbered.find(number) != nullptr);
    CHECK(numbered.take(number) == 2);
    CHECK(numbered.empty() == !has_ended);
    REQUIRE(memory < 10);
  }
}

TEST_CASE("tenants are told apart behind memory that ran out as the first of them came") {
  const std::string first(40, '1'), second(40, '2');
  bool has_ended = false;
  for (std::size_t memory = 0; !has_ended; ++memory) {
    INFO(memory);
    PageTenants tenants(8);
    tenants.limit(4);
    has_ended = ends_with(memory, [&] { (void)tenants.join(first); });
    const TenantNumber two = tenants.join(second), one = tenants.join(first);
    REQUIRE(one != two);
    tenants.take(one, 3);
    tenants.take(two, 4);
    tenants.take(two, 5);
    CHECK(tenants.pages_of(first).pages == 1);
    CHECK(tenants.pages_of(second).pages == 2);
    REQUIRE(memory < 100);
  }
}
