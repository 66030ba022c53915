"""The limiter's Lua scripts, each one atomic step for Redis.

Keys, all with one hash tag so that a cluster keeps them together:

  epoch       exists since Redis was last filled from the database; without it nothing is lent
  open        every slot that is lent and not answered: member `row/name`, score when it was lent
  lent        how many of them each agent has
  departures  the last departure of each agent, and of any (`*`)
  meta        `now`: the latest time returned, which never goes back; `window`: the longest window requested; `full`:
              until when every window counts as full
  window:ROW  an agent's answered slots: member name, score when its answer was reported

None of them has a TTL: a slot that expired would be lent twice. Times are microseconds of the clock of Redis.
"""

from __future__ import annotations

from sellerwatch.adapters.redis.server import Script

PREFIX = "sellerwatch:{pool}:"
KEYS = tuple(PREFIX + name for name in ("epoch", "open", "lent", "departures", "meta"))
WINDOW = PREFIX + "window:"

_TIME = """
local epoch, open, lent, departures, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local windows = ARGV[1]
local function text(number) return string.format('%.0f', number) end
local clock = redis.call('TIME')
local now = math.max(clock[1] * 1000000 + clock[2], tonumber(redis.call('HGET', meta, 'now') or 0))
"""

_FILLED = """
if redis.call('EXISTS', epoch) == 0 then return {'EMPTY', text(now)} end
redis.call('HSET', meta, 'now', text(now))
"""

# Sets slots aside for the candidates named, in their order, as far as both limits and the host's allow. As `lend` of
# the pool does it: groups of equal health one after the other, within a group one each, then a second each.
# ARGV: windows, worker, first number, limit, window, spacing, lookahead, host's concurrency, host's spacing, wanted,
# then of each candidate its row, its group, and 1 where it finds out whether its circuit may close: one request, and
# nothing of it may be under way.
RESERVE = Script(
    _TIME
    + _FILLED
    + """
local worker, number = ARGV[2], tonumber(ARGV[3])
local limit, window, spacing, lookahead = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local host_spacing = tonumber(ARGV[9])
local room = math.min(tonumber(ARGV[10]), tonumber(ARGV[8]) - redis.call('ZCARD', open))
local first, last = 11, #ARGV
local known = redis.call('HMGET', meta, 'window', 'full')
local longest, full = tonumber(known[1] or 0), tonumber(known[2] or 0)
if window > longest then
    longest = window
    redis.call('HSET', meta, 'window', text(window))
end
if now < full then return {'OK', text(now), text(full - now)} end
local edge = '(' .. text(now - window)

local function window_of(row)
    local key = windows .. row
    redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now - longest))
    local under_way = tonumber(redis.call('HGET', lent, row) or 0)
    local left = limit - redis.call('ZCOUNT', key, edge, '+inf') - under_way
    local departure = tonumber(redis.call('HGET', departures, row) or 0)
    return left, math.max(now, departure + spacing), under_way
end

local grants, at = {}, first
while at <= last and #grants < room do
    local group, taken = ARGV[at + 1], {}
    while at <= last and ARGV[at + 1] == group do
        if #grants < room then
            local row, is_probe = ARGV[at], ARGV[at + 2] == '1'
            local left, departure, under_way = window_of(row)
            if is_probe then left = under_way > 0 and 0 or math.min(left, 1) end
            if left > 0 and departure <= now + lookahead then
                grants[#grants + 1] = {row, departure}
                taken[#taken + 1] = {row, left - 1, departure + spacing}
            end
        end
        at = at + 3
    end
    while #taken > 0 and #grants < room do
        local following = {}
        for _, one in ipairs(taken) do
            if #grants < room and one[2] > 0 and one[3] <= now + lookahead then
                grants[#grants + 1] = {one[1], one[3]}
                following[#following + 1] = {one[1], one[2] - 1, one[3] + spacing}
            end
        end
        taken = following
    end
end

local wait = -1
local function sooner(time) if time > 0 and (wait < 0 or time < wait) then wait = time end end
if host_spacing > 0 and #grants > 0 then
    local paced, latest = {}, tonumber(redis.call('HGET', departures, '*') or 0)
    local before = latest
    for _, grant in ipairs(grants) do
        latest = math.max(grant[2], latest + host_spacing)
        if latest > now + lookahead then break end
        paced[#paced + 1] = {grant[1], latest}
    end
    grants = paced
    if #grants == 0 then sooner(math.max(1, before + host_spacing - now)) end
end
local reply = {'OK', text(now), '-1'}
for _, grant in ipairs(grants) do
    local row, departure, name = grant[1], text(grant[2]), worker .. ':' .. number
    number = number + 1
    redis.call('ZADD', open, text(now), row .. '/' .. name)
    redis.call('HINCRBY', lent, row, 1)
    redis.call('HSET', departures, row, departure, '*', departure)
    reply[#reply + 1] = row
    reply[#reply + 1] = departure
    reply[#reply + 1] = name
end
if #grants == 0 and wait < 0 and room > 0 then
    for at = first, last, 3 do
        local left, departure = window_of(ARGV[at])
        if left > 0 then
            sooner(departure - now)
        else
            local oldest = redis.call('ZRANGEBYSCORE', windows .. ARGV[at], edge, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
            if oldest[2] then sooner(oldest[2] + window - now) end
        end
    end
end
reply[3] = text(wait)
return reply
"""
)

# What was lent is a permit now, under its number; what was not used is free again. A permit that Redis does not know
# (it was emptied since) is known from now on: nothing is sent before this was said.
# ARGV: windows, how many permits, then row, name and number of each; then row and name of what is given back.
SETTLE = Script(
    _TIME
    + _FILLED
    + """
local at = 3
for _ = 1, tonumber(ARGV[2]) do
    local row = ARGV[at]
    local gone = redis.call('ZREM', open, row .. '/' .. ARGV[at + 1])
    local added = redis.call('ZADD', open, 'NX', text(now), row .. '/' .. ARGV[at + 2])
    if added ~= gone then redis.call('HINCRBY', lent, row, added - gone) end
    at = at + 3
end
while at <= #ARGV do
    if redis.call('ZREM', open, ARGV[at] .. '/' .. ARGV[at + 1]) == 1 then redis.call('HINCRBY', lent, ARGV[at], -1) end
    at = at + 2
end
return {'OK', text(now)}
"""
)

# Answers came back: their slots are free one window from now. One that was given up before counts from now as well.
# ARGV: windows, then row and name of each.
ANSWER = Script(
    _TIME
    + _FILLED
    + """
for at = 2, #ARGV, 2 do
    local row, name = ARGV[at], ARGV[at + 1]
    if redis.call('ZREM', open, row .. '/' .. name) == 1 then redis.call('HINCRBY', lent, row, -1) end
    redis.call('ZADD', windows .. row, 'GT', text(now), name)
end
return {'OK', text(now)}
"""
)

# What the database knows to count, counts here as well. Saying it twice, or by two processes at once, changes nothing.
# When these departed is not known any more: it may have been just now. The answer has how many answered ones that are
# still in their window were missing from a Redis that had been filled before.
# ARGV: windows, then row, name and age of each; the age of one that is under way is -1.
LOAD = Script(
    _TIME
    + """
local was_filled, missing = redis.call('EXISTS', epoch) == 1, 0
local longest = tonumber(redis.call('HGET', meta, 'window') or 0)
for at = 2, #ARGV, 3 do
    local row, name, age = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    redis.call('HSETNX', departures, row, text(now))
    redis.call('HSETNX', departures, '*', text(now))
    if age < 0 then
        local added = redis.call('ZADD', open, 'NX', text(now), row .. '/' .. name)
        redis.call('HINCRBY', lent, row, added)
    elseif not redis.call('ZSCORE', open, row .. '/' .. name) then
        local added = redis.call('ZADD', windows .. row, 'GT', text(now - age), name)
        if was_filled and age < longest then missing = missing + added end
    end
end
return {'OK', text(now), missing}
"""
)

# How many slots each agent has open is counted again from the slots themselves. The answer has how many agents had
# another number.
RECOUNT = Script(
    _TIME
    + _FILLED
    + """
local counted, wrong = {}, 0
for _, member in ipairs(redis.call('ZRANGE', open, 0, -1)) do
    local row = string.match(member, '^([^/]*)/')
    counted[row] = (counted[row] or 0) + 1
end
local known = redis.call('HGETALL', lent)
for at = 1, #known, 2 do
    local row = known[at]
    local right = counted[row] or 0
    if tonumber(known[at + 1]) ~= right then
        redis.call('HSET', lent, row, right)
        wrong = wrong + 1
    end
    counted[row] = nil
end
for row, number in pairs(counted) do
    redis.call('HSET', lent, row, number)
    wrong = wrong + 1
end
return {'OK', text(now), wrong}
"""
)

# Everything was loaded: lending begins, or goes on. ARGV: windows, a name for this filling.
BEGIN = Script(
    _TIME
    + """
redis.call('HSET', meta, 'now', text(now))
redis.call('SETNX', epoch, ARGV[2])
return {'OK', text(now)}
"""
)

# What was lent is unknown: every window counts as full for one window. ARGV: windows, the window.
FILL = Script(
    _TIME
    + """
redis.call('HSET', meta, 'full', text(now + tonumber(ARGV[2])))
return {'OK', text(now)}
"""
)

# Slots lent before a time and not answered. ARGV: windows, how long ago.
STALE = Script(
    _TIME
    + _FILLED
    + """
local reply = redis.call('ZRANGEBYSCORE', open, '-inf', text(now - tonumber(ARGV[2])))
table.insert(reply, 1, text(now))
table.insert(reply, 1, 'OK')
return reply
"""
)
