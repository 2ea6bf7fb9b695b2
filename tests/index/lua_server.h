// The index's functions in an embedded Lua 5.1, over a small store with the commands that they use
// and a clock of the test's: a Redis server without a process, whose calls are repeatable.
//
// Its answers are compared with a real server's in differential_test.cpp. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

struct lua_State;

namespace sluice {

/// What a server keeps.
struct LuaData {
  std::map<std::string, std::string> texts;
  std::map<std::string, std::map<std::string, std::string>> hashes;
  std::map<std::string, std::set<std::string>> sets;
  std::map<std::string, std::map<std::string, double>> scores;
  bool operator==(const LuaData&) const = default;
};

/// A list of texts, or an error.
struct LuaAnswer {
  std::vector<std::string> words;
  std::string error;
  bool operator==(const LuaAnswer&) const = default;
};

class LuaServer {
 public:
  /// Of a library's text.
  explicit LuaServer(std::string_view library);
  ~LuaServer();
  LuaServer(const LuaServer&) = delete;
  LuaServer& operator=(const LuaServer&) = delete;

  /// FCALL name 1 key args...
  LuaAnswer ask(const std::vector<std::string>& words);

  LuaData data;
  std::int64_t now_ms = 1'700'000'000'000;
  std::uint64_t writes = 0;                       // so far
  std::uint64_t writes_left = ~std::uint64_t{0};  // then the next write fails
  std::size_t calls = 0;                          // of the last question, inner ones

 private:
  struct Function {
    int reference = 0;
    bool may_write = true;
  };

  static int register_function(lua_State* lua);
  static int error_reply(lua_State* lua);
  static int call(lua_State* lua);
  /// Pushes the answer of an inner command.
  void run(const std::vector<std::string>& words);
  void run_hash(const std::vector<std::string>& words);
  void run_set(const std::vector<std::string>& words);
  void run_scores(const std::vector<std::string>& words);
  void push(const std::string& text);
  void push(const std::vector<std::string>& list);
  void push_number(double number);
  void push_nothing();

  lua_State* lua_;
  std::map<std::string, Function> functions_;
};

}  // namespace sluice
