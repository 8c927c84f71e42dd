--[[ A cost taken from one bucket, and tokens for later: drawn now, to be spent elsewhere before the lease ends.

What is drawn counts as spent when the lease ends, however early it is: then no interval has more than its
limit. Without its cost nothing is drawn. Numbers are as in take.lua.

What was drawn and not spent is given back only if nobody has touched the bucket since: its text still has the mark of
that lease. Then it is as if so much less had been drawn. Behind what others drew or took meanwhile, to give back would
move theirs to before the end of their leases.

A bucket of which tokens are out says so before its limit: ' d', the mark (0: others have touched it), and the moment
that it had after the last draw, as seconds and rest. Until that has come it is not made fuller by hand (edit.lua).

KEYS   the bucket
ARGV   now: seconds and ns, or '' and ''
       how the bucket's text ends; and a text, and another that stands for it, or '' and ''
       the marks of the lease that something is given back of, and of this one
       capacity, length of the lease, what is given back, cost: each seconds and rest
       then what is wanted, most first: tokens, and their time in seconds and rest

Answer: seconds and ns of now, 1 if the cost was taken or 0, the bucket as it was when what was given back was
back (its text, or nothing), and how many tokens were drawn. 2 instead: as in take.lua.
]]
local UNITS = 1048576000000000
local floor, format = math.floor, string.format

local now_s, now_ns
if ARGV[1] == '' then
    local time = redis.call('TIME')
    now_s, now_ns = tonumber(time[1]), tonumber(time[2]) * 1000
else
    now_s, now_ns = tonumber(ARGV[1]), tonumber(ARGV[2])
end
local now_f = now_ns * 1048576

local function add(a_s, a_f, b_s, b_f)
    local s, f = a_s + b_s, a_f + b_f
    if f >= UNITS then return s + 1, f - UNITS end
    return s, f
end

local function less(a_s, a_f, b_s, b_f)
    return a_s < b_s or (a_s == b_s and a_f < b_f)
end

local tat_s, tat_f = now_s, now_f
local text = redis.call('GET', KEYS[1])
local shape = ARGV[3]
if text and string.sub(text, -#shape) ~= shape then
    if string.sub(text, -#shape - 1) ~= shape .. '!' then
        if text ~= ARGV[4] then return {now_s, now_ns, 2, text, 0} end
        text = ARGV[5]
    end
    local hold_s, hold_ns = string.match(text, ' h(%d+) (%d+) ')
    if hold_s and less(now_s, now_ns, tonumber(hold_s), tonumber(hold_ns)) then
        return {now_s, now_ns, 0, text, 0}
    end
end
if text then
    local s, f = string.match(text, '^(%d+) (%d+) ')
    if not s then
        return redis.error_reply('RATION the bucket ' .. KEYS[1] .. ' holds something else: ' .. text)
    end
    tat_s, tat_f = tonumber(s), tonumber(f)
end

local mark, least_s, least_f = string.match(text or '', ' d(%d+) (%d+) (%d+) ')
least_s, least_f = tonumber(least_s or 0), tonumber(least_f or 0)
local back_s, back_f = tonumber(ARGV[12]), tonumber(ARGV[13])
local is_back = mark == ARGV[6] and (back_s > 0 or back_f > 0)
if is_back then
    tat_s, tat_f = tat_s - back_s, tat_f - back_f
    if tat_f < 0 then tat_s, tat_f = tat_s - 1, tat_f + UNITS end
    if tat_s < 0 then tat_s, tat_f = 0, 0 end
    least_s, least_f = tat_s, tat_f
    text = format('%d %d', tat_s, tat_f) .. shape
end

local room_s, room_f = add(now_s, now_f, tonumber(ARGV[8]), tonumber(ARGV[9]))
if less(tat_s, tat_f, now_s, now_f) then tat_s, tat_f = now_s, now_f end
local cost_s, cost_f = tonumber(ARGV[14]), tonumber(ARGV[15])
local next_s, next_f = add(tat_s, tat_f, cost_s, cost_f)
local has_cost = cost_s > 0 or cost_f > 0
local taken = (not has_cost or not less(room_s, room_f, next_s, next_f)) and 1 or 0
if taken == 1 then tat_s, tat_f = next_s, next_f end

local base_s, base_f = add(now_s, now_f, tonumber(ARGV[10]), tonumber(ARGV[11]))
if less(base_s, base_f, tat_s, tat_f) then base_s, base_f = tat_s, tat_f end
local drawn = 0
for i = 16, taken == 1 and #ARGV or 0, 3 do
    local next_s, next_f = add(base_s, base_f, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
    if not less(room_s, room_f, next_s, next_f) then
        drawn, tat_s, tat_f = tonumber(ARGV[i]), next_s, next_f
        break
    end
end

local lease = ''
if drawn > 0 then
    lease = format(' d%s %d %d', ARGV[7], tat_s, tat_f)
elseif less(now_s, now_f, least_s, least_f) then
    lease = format(' d0 %d %d', least_s, least_f)
end
if drawn > 0 or is_back or (has_cost and taken == 1) then
    local extra = ARGV[1] == '' and 1 or 3600001
    local ms = (tat_s - now_s) * 1000 + floor((tat_f - now_f) / 1048576 / 1000000) + extra
    if ms > 0 then
        redis.call('SET', KEYS[1], format('%d %d', tat_s, tat_f) .. lease .. shape, 'PX', format('%d', ms))
    else
        redis.call('DEL', KEYS[1])
    end
end
return {now_s, now_ns, taken, text, drawn}
