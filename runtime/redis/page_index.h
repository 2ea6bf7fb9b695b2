// The functions by which a Redis server answers which machines have which pages: a library of Lua.
//
// The text is runtime/redis/page_index.lua, built in. Source: redis.io, FUNCTION LOAD.
#pragma once

#include <string_view>

namespace sluice {

std::string_view page_index_functions();

}  // namespace sluice
