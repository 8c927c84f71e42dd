--[[ Common start of all scripts: the current time, and arithmetic on times.

Lua has only doubles, so every number is an integer below 2^53, and a time is two numbers: whole seconds (suffix _s) and a
fraction. For token buckets the fraction (_f) is in 2^-20 ns, of which a second has UNITS; for windows and intervals it
(_ns) is in ns.

ARGV   now: seconds and ns; or '' and '' for the time of this server
]]
local UNITS = 1048576000000000
local floor, format, match, sub = math.floor, string.format, string.match, string.sub

local now_s, now_ns
if ARGV[1] == '' then
    local time = redis.call('TIME')
    now_s, now_ns = tonumber(time[1]), tonumber(time[2]) * 1000
else
    now_s, now_ns = tonumber(ARGV[1]), tonumber(ARGV[2])
end
local now_f = now_ns * 1048576

-- Adds two times; `unit` is how many fractions a second has.
local function add(a_s, a_r, b_s, b_r, unit)
    local s, r = a_s + b_s, a_r + b_r
    if r >= unit then return s + 1, r - unit end
    return s, r
end

local function less(a_s, a_r, b_s, b_r)
    return a_s < b_s or (a_s == b_s and a_r < b_r)
end

-- Added to the expiry of a key. A `now` from ARGV is not related to the clock by which this server expires keys.
local EXTRA_MS = ARGV[1] == '' and 1 or 3600001

-- Converts two numbers of a text to a time with that unit; nil if a bucket cannot store such a time.
local LATEST_S = 9799832789 -- 2^63 and 2^59 ns
local function read_time(s, r, unit)
    s, r = tonumber(s), tonumber(r)
    if s and s <= LATEST_S and r < (unit or UNITS) then return s, r end
end
