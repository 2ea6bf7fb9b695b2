#include "runtime/zmq/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace sluice::links {

namespace {

Error wrong(const std::string& text, const std::string& why) {
  return invalid_argument("address '" + text + "': " + why);
}

Result<Address> read_ipc(const std::string& text, std::string_view path) {
  if (path.empty() || path[0] != '/')
    return wrong(text, "a path from the root is needed: ipc:///directory/name");
  if (path.size() >= sizeof(sockaddr_un{}.sun_path))
    return wrong(text, "the path has " + std::to_string(path.size()) + " characters, at most " +
                           std::to_string(sizeof(sockaddr_un{}.sun_path) - 1) + " are possible");
  if (path.back() == '/' || path.find('*') != std::string_view::npos ||
      path.find('\0') != std::string_view::npos)
    return wrong(text, "it names no file");
  const std::size_t slash = path.rfind('/');
  return Address{true, false, std::string(path.substr(0, std::max<std::size_t>(slash, 1)))};
}

Result<Address> read_tcp(const std::string& text, std::string_view rest) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return wrong(text, "the port is missing: tcp://IP:PORT");
  std::string host(rest.substr(0, colon));
  const std::string_view digits = rest.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port == 0 || port > 65535)
    return wrong(text, "the port must be a number from 1 to 65535");
  if (host == "*")
    return wrong(text, "* means every interface; write the one address to be reached at");
  Address address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    in6_addr ip{};
    if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &ip) != 1)
      return wrong(text, "an IPv6 address in brackets is needed");
    if (IN6_IS_ADDR_UNSPECIFIED(&ip))
      return wrong(text, "[::] means every interface; write the one address to be reached at");
    if (IN6_IS_ADDR_V4MAPPED(&ip)) return wrong(text, "write the IPv4 address itself");
    address.ipv6 = true;
    address.local = IN6_IS_ADDR_LOOPBACK(&ip);
    return address;
  }
  in_addr ip{};
  if (inet_pton(AF_INET, host.c_str(), &ip) != 1)
    return wrong(text, "a numeric address is needed, as tcp://127.0.0.1:5000 or tcp://[::1]:5000");
  if (ip.s_addr == htonl(INADDR_ANY))
    return wrong(text, "0.0.0.0 means every interface; write the one address to be reached at");
  address.local = ntohl(ip.s_addr) >> 24U == 127;
  return address;
}

}  // namespace

Result<Address> read_address(const std::string& text) {
  constexpr std::string_view ipc = "ipc://", tcp = "tcp://";
  const std::string_view view = text;
  if (view.starts_with(ipc)) return read_ipc(text, view.substr(ipc.size()));
  if (view.starts_with(tcp)) return read_tcp(text, view.substr(tcp.size()));
  return wrong(text, "it must begin with ipc:// or tcp://");
}

Result<void> check_directory(const std::string& directory) {
  struct stat found {};
  if (lstat(directory.c_str(), &found) != 0)
    return invalid_argument("directory " + directory + " of an ipc address: " +
                            std::strerror(errno) + "; make it with mode 0700");
  if (!S_ISDIR(found.st_mode))
    return invalid_argument("directory " + directory + " of an ipc address is no directory");
  if (found.st_uid != geteuid())
    return invalid_argument("directory " + directory + " of an ipc address belongs to user " +
                            std::to_string(found.st_uid) + ", not to this one");
  if ((found.st_mode & 077U) == 0) return {};
  // Others use it too, so it has to stay open: /tmp, /run.
  const bool shared =
      (found.st_mode & (S_ISVTX | S_IWOTH)) != 0 || directory.find('/', 1) == std::string::npos;
  return invalid_argument("directory " + directory + " of an ipc address is open to others: " +
                          (shared
                               ? "name a folder of your own, made with mode 0700, in /run/user/" +
                                     std::to_string(geteuid()) + ", say"
                               : "chmod 0700 closes it, where nobody else uses it"));
}

}  // namespace sluice::links
