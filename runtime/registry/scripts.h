// What a registry's server does in one step, in Lua.
//
// Keys: a hash `lives` by machine ("incarnation token workflow", kept when the entry is over, so
// that no incarnation is given twice), a sorted set `leases` (the end by the server's clock, in
// ms), and `epoch`, which names this server's data and ends with when they began (`@`, ms).
// Source: redis.io, EVAL.
#pragma once

namespace sluice::registry {

/// name, token, incarnation wanted, workflow, lease in ms, epoch's name where there is none,
/// `again` or `new`, for how many ms a young epoch lets nobody new in.
/// -> `ok` epoch incarnation present... | `held` incarnation ms left | `differs` machine workflow
///    | `young` ms left
inline constexpr const char* enter = R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local name, token, workflow = ARGV[1], ARGV[2], ARGV[4]
local wanted, lease = tonumber(ARGV[3]), tonumber(ARGV[5])
local function life(of)
  local text = redis.call('HGET', KEYS[1], of)
  if not text then return 0, '', '' end
  local i, k, w = string.match(text, '^(%d+) (%S*) (%S*)$')
  return tonumber(i or 0), k or '', w or ''
end
local present = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf')
for _, other in ipairs(present) do
  local i, k, w = life(other)
  if other == name and k ~= token then
    local left = redis.call('ZSCORE', KEYS[2], other) - now
    return {'held', string.format('%d', i), string.format('%d', left)}
  end
  if other ~= name and w ~= workflow then return {'differs', other, w} end
end
local last, last_token = life(name)
local given = wanted
if last_token ~= token then given = math.max(wanted, last + 1) end
if last_token == token then given = math.max(wanted, last) end
local epoch = redis.call('GET', KEYS[3])
if not epoch then
  epoch = ARGV[6] .. '@' .. string.format('%d', now)
  redis.call('SET', KEYS[3], epoch)
end
local young = tonumber(string.match(epoch, '@(%d+)$') or '0') + tonumber(ARGV[8]) - now
if ARGV[7] ~= 'again' and young > 0 then return {'young', string.format('%d', young)} end
redis.call('HSET', KEYS[1], name, string.format('%d', given) .. ' ' .. token .. ' ' .. workflow)
redis.call('ZADD', KEYS[2], now + lease, name)
local answer = {'ok', epoch, string.format('%d', given)}
for _, other in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf')) do
  answer[#answer + 1] = other
end
return answer
)lua";

/// name, token, incarnation, workflow, lease in ms, epoch.
/// -> `ok` epoch incarnation present... | `replaced` | `fenced` incarnation
inline constexpr const char* renew = R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local text = redis.call('HGET', KEYS[1], ARGV[1])
if redis.call('GET', KEYS[3]) ~= ARGV[6] or not text then return {'replaced'} end
local i, k = string.match(text, '^(%d+) (%S*) ')
if k ~= ARGV[2] then return {'fenced', i or '0'} end
local given = string.format('%d', math.max(tonumber(i), tonumber(ARGV[3])))
redis.call('HSET', KEYS[1], ARGV[1], given .. ' ' .. ARGV[2] .. ' ' .. ARGV[4])
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[5]), ARGV[1])
local answer = {'ok', ARGV[6], given}
for _, other in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf')) do
  answer[#answer + 1] = other
end
return answer
)lua";

/// name, token. Only the entry's own process takes it away.
inline constexpr const char* leave = R"lua(
local text = redis.call('HGET', KEYS[1], ARGV[1])
if text and string.match(text, '^%d+ (%S*) ') == ARGV[2] then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return {'ok'}
)lua";

}  // namespace sluice::registry
