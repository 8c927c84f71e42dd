--[[ A cost taken from one bucket, and tokens for later: drawn now, to be spent elsewhere before the lease ends.

What is drawn counts as spent when the lease ends, however early it is: then no interval has more than its
limit. Without its cost nothing is drawn. Times are as in head.lua.

A bucket of which tokens are out says so before its limit: ' d' and three moments, each seconds and rest.

    charged   grows by all that is taken and drawn, from now on if that is later
    least     what the bucket's moment was after the last draw: until then nobody makes it fuller by hand (edit.lua)
    since     what was drawn before is not given back: there was no record, or the bucket was blocked or of another limit

What was drawn and not spent comes back, as if so much less had been drawn: what was charged since moves to before it.
But nothing may move to before the end of the lease that it is of, which is at most a quarter of the capacity from now.
How much was charged since is known from the lease's number: how many 256ths of the capacity `charged` was then,
modulo 4096. Nobody is charged 16 capacities in the time after which nothing is given back any more (near_lease.c: three
quarters of the time to fill), since what is refunded is taken off again; so numbers do not come round meanwhile.

KEYS   the bucket
ARGV   now: seconds and ns, or '' and ''
       how the bucket's text ends; and a text, and another that stands for it, or '' and ''
       the number of the lease that something is given back of
       capacity, length of the lease, what is given back, how long ago that was drawn at most, cost: each seconds and rest
       then what is wanted, most first: tokens, and their time in seconds and rest

Answer: seconds and ns of now, 1 if the cost was taken or 0, the bucket as it was when what was given back was
back (its text, or nothing), how many tokens were drawn, and the lease's number. 2 instead: as in take.lua.
]]
local tat_s, tat_f = now_s, now_f
local text = redis.call('GET', KEYS[1])
local shape, is_converted = ARGV[3], false
if text and sub(text, -#shape) ~= shape then
    if sub(text, -#shape - 1) ~= shape .. '!' then
        if text ~= ARGV[4] then return {now_s, now_ns, 2, text, 0, 0} end
        text, is_converted = ARGV[5], true
    end
    local hold_s, hold_ns = match(text, ' h(%d+) (%d+) ')
    if hold_s and less(now_s, now_ns, tonumber(hold_s), tonumber(hold_ns)) then
        return {now_s, now_ns, 0, text, 0, 0}
    end
end
if text then
    tat_s, tat_f = moment(match(text, '^(%d+) (%d+) %D'))
    if not tat_s then
        return redis.error_reply('RATION the bucket ' .. KEYS[1] .. ' holds something else: ' .. text)
    end
end

local capacity_s, capacity_f = tonumber(ARGV[7]), tonumber(ARGV[8])
local function to_us(s, f)
    return s * 1000000 + floor(f / 1048576000)
end

local step = floor(to_us(capacity_s, capacity_f) / 256) -- us, as what is compared by it
if step < 1 then step = 1 end
local charged_s, charged_f, least_s, least_f, since_s, since_f =
    match(text or '', ' d(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
local has_lease = charged_s ~= nil
charged_s, charged_f = tonumber(charged_s or now_s), tonumber(charged_f or now_f)
least_s, least_f = tonumber(least_s or 0), tonumber(least_f or 0)
since_s, since_f = tonumber(since_s or 0), tonumber(since_f or 0)
-- Of before this record, say one that was forgotten, nothing is known: no number means anything.
if is_converted or not has_lease then since_s, since_f = now_s, now_f end

local function number_of(s, f)
    local us = to_us(s, f)
    return (us - us % step) / step % 4096
end

local function subtract(a_s, a_f, b_s, b_f)
    local s, f = a_s - b_s, a_f - b_f
    if f < 0 then return s - 1, f + UNITS end
    return s, f
end

local back_s, back_f = tonumber(ARGV[11]), tonumber(ARGV[12])
local is_back = false
if has_lease and (back_s > 0 or back_f > 0) then
    -- So many steps were charged since, and a quarter; and what is lost by rounding.
    local behind = (number_of(charged_s, charged_f) - tonumber(ARGV[6])) % 4096 + 64 + 4
    local need_s, need_f = subtract(tat_s, tat_f, now_s, now_f)
    need_s, need_f = subtract(need_s, need_f, back_s, back_f)
    local drawn_s, drawn_f = subtract(now_s, now_f, tonumber(ARGV[13]), tonumber(ARGV[14]))
    is_back = to_us(need_s, need_f) >= behind * step and less(since_s, since_f, drawn_s, drawn_f)
end
if is_back then
    tat_s, tat_f = subtract(tat_s, tat_f, back_s, back_f)
    least_s, least_f = subtract(least_s, least_f, back_s, back_f)
    text = format('%d %d', tat_s, tat_f) .. shape
end

local room_s, room_f = add(now_s, now_f, capacity_s, capacity_f, UNITS)
if less(tat_s, tat_f, now_s, now_f) then tat_s, tat_f = now_s, now_f end
local cost_s, cost_f = tonumber(ARGV[15]), tonumber(ARGV[16])
local next_s, next_f = add(tat_s, tat_f, cost_s, cost_f, UNITS)
local has_cost = cost_s > 0 or cost_f > 0
local taken = (not has_cost or not less(room_s, room_f, next_s, next_f)) and 1 or 0
if less(charged_s, charged_f, now_s, now_f) then charged_s, charged_f = now_s, now_f end
if taken == 1 then
    tat_s, tat_f = next_s, next_f
    charged_s, charged_f = add(charged_s, charged_f, cost_s, cost_f, UNITS)
end

local base_s, base_f = add(now_s, now_f, tonumber(ARGV[9]), tonumber(ARGV[10]), UNITS)
if less(base_s, base_f, tat_s, tat_f) then base_s, base_f = tat_s, tat_f end
local drawn = 0
for i = 17, taken == 1 and #ARGV or 0, 3 do
    local next_s, next_f = add(base_s, base_f, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), UNITS)
    if not less(room_s, room_f, next_s, next_f) then
        drawn, tat_s, tat_f = tonumber(ARGV[i]), next_s, next_f
        charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), UNITS)
        least_s, least_f = tat_s, tat_f
        break
    end
end

-- Nothing comes back later than half of the time to fill after the last draw.
local keep_s, keep_f = add(least_s, least_f, floor(capacity_s / 2), floor(capacity_f / 2) + (capacity_s % 2) * UNITS / 2, UNITS)
local lease, full_s, full_f = '', tat_s, tat_f
if drawn > 0 or (has_lease and less(now_s, now_f, keep_s, keep_f)) then
    local round = 4096 * step -- by which no number changes
    if to_us(charged_s, charged_f) > to_us(now_s, now_f) + round then
        local rest = round % 1000000
        charged_s, charged_f = subtract(charged_s, charged_f, (round - rest) / 1000000, rest * 1048576000)
    end
    lease = format(' d%d %d %d %d %d %d', charged_s, charged_f, least_s, least_f, since_s, since_f)
    if less(full_s, full_f, keep_s, keep_f) then full_s, full_f = keep_s, keep_f end
end
if drawn > 0 or is_back or (has_cost and taken == 1) then
    keep(format('%d %d', tat_s, tat_f) .. lease .. shape, full_s, full_f)
end
return {now_s, now_ns, taken, text, drawn, number_of(charged_s, charged_f)}
