#include "tests/index/lua_server.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <lua.hpp>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace sluice {

namespace {

LuaServer& server_of(lua_State* lua) {
  return *static_cast<LuaServer*>(lua_touserdata(lua, lua_upvalueindex(1)));
}

std::string text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* const text = lua_tolstring(lua, index, &size);
  return text == nullptr ? std::string() : std::string(text, size);
}

/// As Redis reads the ends of an interval of scores.
double bound(const std::string& text, bool& is_open) {
  is_open = text.starts_with('(');
  const std::string value = is_open ? text.substr(1) : text;
  if (value == "-inf") return -HUGE_VAL;
  if (value == "+inf") return HUGE_VAL;
  return std::strtod(value.c_str(), nullptr);
}

const std::set<std::string> writing{"SET",  "HSET", "HDEL", "SADD",
                                    "SREM", "ZADD", "ZREM", "UNLINK"};

}  // namespace

LuaServer::LuaServer(std::string_view library) : lua_(luaL_newstate()) {
  SLUICE_CHECK(lua_ != nullptr);
  luaL_openlibs(lua_);
  lua_newtable(lua_);
  for (const auto& [name, function] :
       {std::pair{"register_function", &LuaServer::register_function},
        std::pair{"error_reply", &LuaServer::error_reply}, std::pair{"call", &LuaServer::call}}) {
    lua_pushlightuserdata(lua_, this);
    lua_pushcclosure(lua_, function, 1);
    lua_setfield(lua_, -2, name);
  }
  lua_setglobal(lua_, "redis");
  const std::string_view text = library.substr(library.find('\n'));  // behind `#!lua`
  const bool loaded = luaL_loadbuffer(lua_, text.data(), text.size(), "library") == 0 &&
                      lua_pcall(lua_, 0, 0, 0) == 0;
  if (!loaded) std::fprintf(stderr, "%s\n", text_at(lua_, -1).c_str());
  SLUICE_CHECK(loaded);
}

LuaServer::~LuaServer() { lua_close(lua_); }

int LuaServer::register_function(lua_State* lua) {
  Function function;
  std::string name;
  if (lua_istable(lua, 1)) {
    lua_getfield(lua, 1, "function_name");
    name = text_at(lua, -1);
    lua_getfield(lua, 1, "flags");
    for (int i = 1; lua_istable(lua, -1) && i <= static_cast<int>(lua_objlen(lua, -1)); ++i) {
      lua_rawgeti(lua, -1, i);
      if (text_at(lua, -1) == "no-writes") function.may_write = false;
      lua_pop(lua, 1);
    }
    lua_getfield(lua, 1, "callback");
  } else {
    name = text_at(lua, 1);
    lua_pushvalue(lua, 2);
  }
  function.reference = luaL_ref(lua, LUA_REGISTRYINDEX);
  server_of(lua).functions_[name] = function;
  return 0;
}

int LuaServer::error_reply(lua_State* lua) {
  lua_newtable(lua);
  lua_pushvalue(lua, 1);
  lua_setfield(lua, -2, "err");
  return 1;
}

/// An error is a text that the script does not catch; no C++ object is alive when it is thrown.
int LuaServer::call(lua_State* lua) {
  LuaServer& server = server_of(lua);
  bool fails = false;
  {
    std::vector<std::string> words;
    for (int i = 1; i <= lua_gettop(lua); ++i) words.push_back(text_at(lua, i));
    ++server.calls;
    if (writing.contains(words[0])) {
      fails = server.writes_left == 0;
      if (!fails) --server.writes_left;
      ++server.writes;
    }
    if (!fails) server.run(words);
  }
  if (fails) return luaL_error(lua, "the server was stopped");
  return 1;
}

void LuaServer::push(const std::string& text) { lua_pushlstring(lua_, text.data(), text.size()); }
void LuaServer::push_number(double number) { lua_pushnumber(lua_, number); }
void LuaServer::push_nothing() { lua_pushboolean(lua_, 0); }
void LuaServer::push(const std::vector<std::string>& list) {
  lua_newtable(lua_);
  for (std::size_t i = 0; i < list.size(); ++i) {
    push(list[i]);
    lua_rawseti(lua_, -2, static_cast<int>(i) + 1);
  }
}

void LuaServer::run(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  if (name == "TIME")
    return push(std::vector<std::string>{std::to_string(now_ms / 1000),
                                         std::to_string(now_ms % 1000 * 1000)});
  if (name == "GET") {
    const auto it = data.texts.find(words[1]);
    return it == data.texts.end() ? push_nothing() : push(it->second);
  }
  if (name == "SET") {
    data.texts[words[1]] = words[2];
    return push(std::string("OK"));
  }
  if (name == "UNLINK")
    return push_number(static_cast<double>(data.sets.erase(words[1]) + data.texts.erase(words[1])));
  if (name[0] == 'H') return run_hash(words);
  if (name[0] == 'S') return run_set(words);
  run_scores(words);
}

void LuaServer::run_hash(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  auto& hash = data.hashes[words[1]];
  if (name == "HGET") {
    const auto it = hash.find(words[2]);
    it == hash.end() ? push_nothing() : push(it->second);
  } else if (name == "HSET") {
    push_number(hash.contains(words[2]) ? 0 : 1);
    hash[words[2]] = words[3];
  } else if (name == "HDEL") {
    push_number(static_cast<double>(hash.erase(words[2])));
  } else if (name == "HLEN") {
    push_number(static_cast<double>(hash.size()));
  } else {
    SLUICE_CHECK(name == "HKEYS", "a command that the store lacks");
    std::vector<std::string> keys;
    for (const auto& [key, value] : hash) keys.push_back(key);
    push(keys);
  }
  if (hash.empty()) data.hashes.erase(words[1]);
}

void LuaServer::run_set(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  auto& set = data.sets[words[1]];
  if (name == "SADD" || name == "SREM") {
    double changed = 0;
    for (std::size_t i = 2; i < words.size(); ++i)
      changed +=
          name == "SADD" ? set.insert(words[i]).second : static_cast<double>(set.erase(words[i]));
    push_number(changed);
  } else if (name == "SCARD") {
    push_number(static_cast<double>(set.size()));
  } else {
    SLUICE_CHECK(name == "SISMEMBER", "a command that the store lacks");
    push_number(set.contains(words[2]) ? 1 : 0);
  }
  if (set.empty()) data.sets.erase(words[1]);
}

void LuaServer::run_scores(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  auto& scores = data.scores[words[1]];
  if (name == "ZADD") {
    push_number(scores.contains(words[3]) ? 0 : 1);
    scores[words[3]] = std::strtod(words[2].c_str(), nullptr);
  } else if (name == "ZREM") {
    push_number(static_cast<double>(scores.erase(words[2])));
  } else {
    SLUICE_CHECK(name == "ZRANGEBYSCORE" && words.size() == 7, "a command that the store lacks");
    bool from_is_open = false, to_is_open = false;
    const double from = bound(words[2], from_is_open), to = bound(words[3], to_is_open);
    std::set<std::pair<double, std::string>> in;
    for (const auto& [member, score] : scores)
      if ((from_is_open ? score > from : score >= from) && (to_is_open ? score < to : score <= to))
        in.emplace(score, member);
    std::vector<std::string> members;
    for (const auto& [score, member] : in)
      if (members.size() < std::stoul(words[6])) members.push_back(member);
    push(members);
  }
  if (scores.empty()) data.scores.erase(words[1]);
}

LuaAnswer LuaServer::ask(const std::vector<std::string>& words) {
  SLUICE_CHECK(words.size() >= 4 && words[0] == "FCALL" && words[2] == "1");
  const auto it = functions_.find(words[1]);
  if (it == functions_.end()) return {{}, "ERR Function not found"};
  const std::uint64_t wrote = writes;
  calls = 0;
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, it->second.reference);
  push(std::vector<std::string>{words[3]});
  push(std::vector<std::string>(words.begin() + 4, words.end()));
  LuaAnswer answer;
  if (lua_pcall(lua_, 2, 1, 0) != 0) {
    answer.error = "ERR " + text_at(lua_, -1);
  } else {
    lua_getfield(lua_, -1, "err");
    if (lua_isstring(lua_, -1) != 0) answer.error = text_at(lua_, -1);
    lua_pop(lua_, 1);
    for (int i = 1; answer.error.empty() && i <= static_cast<int>(lua_objlen(lua_, -1)); ++i) {
      lua_rawgeti(lua_, -1, i);
      answer.words.push_back(text_at(lua_, -1));
      lua_pop(lua_, 1);
    }
  }
  lua_settop(lua_, 0);
  SLUICE_CHECK(it->second.may_write || writes == wrote, "a function that may not write wrote");
  return answer;
}

}  // namespace sluice
