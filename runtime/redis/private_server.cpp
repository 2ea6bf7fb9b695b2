#include "runtime/redis/private_server.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace sluice {

namespace {

/// By the path, as a shell would.
std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (folder.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace

std::string private_redis_socket(const std::string& folder) { return folder + "/registry.socket"; }

std::vector<std::string> registry_acl(const std::string& cluster) {
  return {"resetchannels",  "-@all",
          "+hello",         "+eval",
          "+time",          "+get",
          "+set",           "+hget",
          "+hset",          "+zadd",
          "+zrem",          "+zscore",
          "+zrangebyscore", "~sluice:" + cluster + ":*"};
}

std::vector<std::string> page_index_acl() {
  return {"+info", "+fcall", "+hdel",  "+hkeys",     "+hlen",
          "+sadd", "+srem",  "+scard", "+sismember", "+unlink"};
}

Result<std::vector<std::string>> private_redis_command(const std::string& folder,
                                                       const std::string& cluster) {
  const std::string program = find_program("redis-server");
  if (program.empty())
    return Error{
        ErrorCode::not_found,
        "`registry: private` needs redis-server 7, which is not installed: `apt-get install "
        "redis-server`, or write `registry: none`"};
  std::vector<std::string> words{program};
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  add({"--port", "0", "--unixsocket", private_redis_socket(folder), "--unixsocketperm", "600"});
  add({"--dir", folder, "--save", "", "--appendonly", "no", "--daemonize", "no"});
  add({"--maxmemory", "256mb", "--maxmemory-policy", "noeviction", "--loglevel", "warning"});
  // Its crash report takes locks that the crash may have left held: it would stand still, not die.
  add({"--crash-log-enabled", "no", "--crash-memcheck-enabled", "no"});
  add({"--user", "default", "reset", "on", "nopass"});
  for (const std::vector<std::string>& rules : {registry_acl(cluster), page_index_acl()})
    words.insert(words.end(), rules.begin(), rules.end());
  add({"+function|load"});  // it begins without any, and nobody else uses it
  return words;
}

}  // namespace sluice
