#include "roles/tenant.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr std::size_t name_most = 64;
constexpr std::size_t part_bytes = 8;  // of a name in one attribute

std::string attribute_name(std::size_t part) { return "tenant_" + std::to_string(part); }

std::string shown(const std::string& tenant) {
  return tenant.empty() ? "no tenant" : "the tenant '" + tenant + "'";
}

}  // namespace

bool is_tenant_name(std::string_view name) {
  constexpr std::string_view signs = "._-";
  return !name.empty() && name.size() <= name_most && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           signs.find(c) != std::string_view::npos;
  });
}

void add_tenant(std::string_view name, std::vector<std::pair<std::string, std::int64_t>>& to) {
  for (std::size_t part = 0; part * part_bytes < name.size(); ++part) {
    std::uint64_t number = 0;
    const std::string_view bytes = name.substr(part * part_bytes, part_bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
    to.emplace_back(attribute_name(part), static_cast<std::int64_t>(number));
  }
}

Result<std::string> tenant_of(const Payload& piece) {
  std::string name;
  for (std::size_t part = 0; part * part_bytes < name_most; ++part) {
    const std::optional<std::int64_t> number = piece.attribute(attribute_name(part));
    if (!number.has_value()) break;
    for (auto left = static_cast<std::uint64_t>(*number); left != 0; left >>= 8)
      name += static_cast<char>(left & 0xff);
  }
  if (piece.attribute(attribute_name(0)).has_value() && !is_tenant_name(name))
    return invalid_argument("the attributes tenant_0, ... of a piece of the message are no name");
  return name;
}

Result<void> go_on_as(const std::string& tenant, std::optional<std::string>& of_session) {
  if (!of_session.has_value()) of_session = tenant;
  if (*of_session == tenant) return {};
  return invalid_argument("the session is of " + shown(*of_session) + ", as its first call was, " +
                          "and this call names " + shown(tenant) +
                          ": give the call the session's `tenant`, or a session of its own");
}

Result<void> go_on_as(const Activation& piece, std::optional<std::string>& of_session) {
  std::optional<std::string> whose = of_session;
  const auto add = [&](std::string_view field, bool is_picture) -> Result<void> {
    for (const PayloadRef& frame : piece.inputs(field)) {
      const Result<std::string> tenant = tenant_of(*frame);
      if (!tenant.ok()) return tenant.error();
      if (is_picture && tenant->empty()) continue;
      if (Result<void> same = go_on_as(*tenant, whose); !same.ok()) return same;
    }
    return {};
  };
  Result<void> same = add("text", false);
  if (same.ok() && piece.interface() == "generate") same = add("hidden", false);
  if (same.ok()) same = add(piece.interface() == "answer" ? "image" : "features", true);
  if (same.ok()) of_session = std::move(whose);
  return same;
}

}  // namespace sluice
