#!lua name=sluice_pages_1
-- Which machines have which pages of keys and values: an index that their owners fill, and can
-- fill anew.
--
-- KEYS[1] is a pool's, and what it begins stands in
--   :owners  hash, machine -> "life number": whose pages are there, and its last change
--   :leases  sorted set, machine -> when its time is over, by this server's clock, in ms
--   :has:M   set of the pages of machine M, 16 bytes each
--   :epoch   names this server's data
-- A machine's changes are numbered. One that does not follow the last is refused (`gap`), so after
-- a loss, or with older data than it knows, the owner says all anew, under a higher number. A
-- change that comes twice changes nothing. A machine's pages are closed under prefixes, so the
-- longest prefix is found by halving. Arguments are checked before anything is written, and the
-- number is written after what it stands for: a call that fails half-way is repeated as it was.
-- A change of the answers or arguments is another version: another name of library and functions.
-- Source: redis.io, Redis functions.

local page_bytes = 16
local pages_most = 4096     -- of one call
local machines_most = 256
local removed_most = 4      -- machines whose time is over, by one call
local number_most = 4503599627370496
local part = 256            -- pages of one inner call

local function whole(text, most)
  if type(text) ~= 'string' or #text > 16 or not string.match(text, '^%d+$') then return nil end
  local value = tonumber(text)
  if value > most then return nil end
  return value
end

local function shown(value) return string.format('%d', value) end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function refused(what) return redis.error_reply('ERR sluice_pages: ' .. what) end

local function are_pages(args, first)
  for i = first, #args do
    if #args[i] ~= page_bytes then return false end
  end
  return true
end

local function owner(base, machine)
  local text = redis.call('HGET', base .. ':owners', machine)
  local life, number = string.match(text or '', '^(%d+) (%d+)$')
  return tonumber(life or '0'), tonumber(number or '0')
end

-- First the owner, who hears of a gap then; the lease last, so that what fails before is done again.
local function remove(base, machine)
  redis.call('HDEL', base .. ':owners', machine)
  redis.call('UNLINK', base .. ':has:' .. machine)
  redis.call('ZREM', base .. ':leases', machine)
end

local function remove_old(base, before)
  local old = redis.call('ZRANGEBYSCORE', base .. ':leases', '-inf', shown(before), 'LIMIT', '0',
                         shown(removed_most))
  for _, machine in ipairs(old) do remove(base, machine) end
end

local function in_parts(command, key, args, first, last)
  for begin = first, last, part do
    redis.call(command, key, unpack(args, begin, math.min(begin + part - 1, last)))
  end
end

local function pages_there(base)
  local pages = 0
  for _, machine in ipairs(redis.call('HKEYS', base .. ':owners')) do
    pages = pages + redis.call('SCARD', base .. ':has:' .. machine)
  end
  return pages
end

-- machine, life, number, `next`, `anew` or `same` (no change), lease in ms, for how many ms more pages are kept, how
-- many pages there may be, the epoch's name where there is none, how many pages are added, these,
-- those that are withdrawn
-- -> `ok` epoch number | `gap` epoch number | `fenced` life | `full` pages
local function tell(keys, args)
  local life, number = whole(args[2], 4294967295), whole(args[3], number_most)
  local lease, keep = whole(args[5], 86400000), whole(args[6], 86400000)
  local most, added = whole(args[7], number_most), whole(args[9], pages_most)
  local machine = whole(args[1], 65535)
  local is_anew = args[4] == 'anew'
  local is_known = is_anew or args[4] == 'next' or args[4] == 'same' and #args == 9
  local is_sound = #keys == 1 and machine and life and number and lease and keep and most and
                   added and is_known and args[8] ~= '' and
                   #args[8] <= 64 and 9 + added <= #args and #args <= 9 + pages_most
  if not is_sound or shown(machine) ~= args[1] then return refused('tell: wrong arguments') end
  if not are_pages(args, 10) then return refused('tell: a page has 16 bytes') end
  local base, now = keys[1], now_ms()
  local has = base .. ':has:' .. args[1]
  remove_old(base, now - keep)
  local had_life, had = owner(base, args[1])
  local epoch = redis.call('GET', base .. ':epoch') or args[8] .. '@' .. shown(now)
  if had_life > life then return {'fenced', shown(had_life)} end
  local is_same = had_life == life and had == number
  local follows = had_life == life and had + 1 == number and args[4] == 'next'
  local begins = is_anew and (had_life < life or had < number)
  if not (is_same or follows or begins) then
    return {'gap', epoch, shown(had_life == life and had or 0)}
  end
  if not is_same then
    local pages = pages_there(base)
    if begins then pages = pages - redis.call('SCARD', has) end
    if added > 0 and pages + added > most then return {'full', shown(pages)} end
    if redis.call('HLEN', base .. ':owners') >= machines_most and had_life == 0 then
      return {'full', shown(pages)}
    end
    if begins then redis.call('UNLINK', has) end
    in_parts('SREM', has, args, 10 + added, #args)
    in_parts('SADD', has, args, 10, 9 + added)
  end
  redis.call('SET', base .. ':epoch', epoch)
  redis.call('ZADD', base .. ':leases', shown(now + lease), args[1])
  redis.call('HSET', base .. ':owners', args[1], shown(life) .. ' ' .. shown(number))
  return {'ok', epoch, shown(number)}
end

-- How many of the pages from `first` on the set has.
local function covered(has, args, first)
  local function is_there(count)
    return redis.call('SISMEMBER', has, args[first + count - 1]) == 1
  end
  local low, high = 1, #args - first + 1
  if not is_there(1) then return 0 end
  if is_there(high) then return high end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if is_there(middle) then low = middle else high = middle end
  end
  return low
end

-- machine that asks, how many machines it wants to know, pages of a chain from its first on
-- -> `ok` epoch, and of each machine with some of the first ones: machine life pages; those with
--    most first, of equals those behind the one that asks
local function find(keys, args)
  local asker, most = whole(args[1], 65535), whole(args[2], machines_most)
  if #keys ~= 1 or not asker or not most or #args < 3 or #args > 2 + pages_most then
    return refused('find: wrong arguments')
  end
  if not are_pages(args, 3) then return refused('find: a page has 16 bytes') end
  local base = keys[1]
  local found = {}
  local there = redis.call('ZRANGEBYSCORE', base .. ':leases', '(' .. shown(now_ms()), '+inf',
                           'LIMIT', '0', shown(machines_most))
  for _, machine in ipairs(there) do
    local pages = machine ~= args[1] and covered(base .. ':has:' .. machine, args, 3) or 0
    if pages > 0 then
      found[#found + 1] = {machine, pages, (tonumber(machine) - asker) % 65536}
    end
  end
  table.sort(found, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return a[3] < b[3]
  end)
  local answer = {'ok', redis.call('GET', base .. ':epoch') or ''}
  for i = 1, math.min(#found, most) do
    local life = owner(base, found[i][1])
    answer[#answer + 1] = found[i][1]
    answer[#answer + 1] = shown(life)
    answer[#answer + 1] = shown(found[i][2])
  end
  return answer
end

-- machine, life: its pages are withdrawn. Where another life has told: nothing happens. -> `ok`
local function leave(keys, args)
  local life = whole(args[2], 4294967295)
  if #keys ~= 1 or #args ~= 2 or not whole(args[1], 65535) or not life then
    return refused('leave: wrong arguments')
  end
  local had_life = owner(keys[1], args[1])
  if had_life == life or had_life == 0 then remove(keys[1], args[1]) end
  return {'ok'}
end

redis.register_function('sluice_pages_1_tell', tell)
redis.register_function{function_name = 'sluice_pages_1_find', callback = find,
                        flags = {'no-writes'}}
redis.register_function{function_name = 'sluice_pages_1_leave', callback = leave,
                        flags = {'allow-oom'}}
