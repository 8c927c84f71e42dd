--[[ A token bucket that is refunded, filled or blocked by hand, in one call: others may take from it all the time.

A bucket of which tokens are out on lease says how full it may be made: ' d', and three moments (lease.lua). To give back
more than was taken since the last lease would give back those, too, which may still be spent.

KEYS   the bucket
ARGV   now: seconds and ns, or '' and ''
       how the bucket's text ends
       what: 'refund', 'fill' or 'block'
       capacity: seconds and rest
       refund: what it is worth, seconds and rest. block: how long, seconds and ns, and the time of all tokens but one

Answer: 1, or 0 if the bucket was not there. 2: nothing was done, since it was written under another limit.
]]
local MOST_S, MOST_F = 9223372036, 854775807 * 1048576 -- 2^63 - 1 ns
local shape, what = ARGV[3], ARGV[4]
local capacity_s, capacity_f = tonumber(ARGV[5]), tonumber(ARGV[6])

local text = redis.call('GET', KEYS[1])
local tat_s, tat_f = now_s, now_f
local charged_s, charged_f, least_s, least_f, since_s, since_f
if text then
    if sub(text, -#shape) ~= shape then return 2 end
    tat_s, tat_f = moment(match(text, '^(%d+) (%d+) %D'))
    if not tat_s then
        return redis.error_reply('RATION the bucket ' .. KEYS[1] .. ' holds something else: ' .. text)
    end
    charged_s, charged_f, least_s, least_f, since_s, since_f =
        match(text, ' d(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
elseif what ~= 'block' then
    return 0
end

local has_lease = charged_s ~= nil
charged_s, charged_f = tonumber(charged_s or 0), tonumber(charged_f or 0)
least_s, least_f = tonumber(least_s or 0), tonumber(least_f or 0)
since_s, since_f = tonumber(since_s or 0), tonumber(since_f or 0)
local is_least = less(now_s, now_f, least_s, least_f)
if what == 'block' then
    local length_s, length_f = tonumber(ARGV[7]), tonumber(ARGV[8]) * 1048576
    local until_s, until_f = add(now_s, now_f, length_s, length_f, UNITS)
    if less(MOST_S, MOST_F, until_s, until_f) then until_s, until_f = MOST_S, MOST_F end
    until_s, until_f = add(until_s, until_f, tonumber(ARGV[9]), tonumber(ARGV[10]), UNITS)
    if not less(tat_s, tat_f, until_s, until_f) then return 1 end
    tat_s, tat_f = until_s, until_f
    since_s, since_f = now_s, now_f -- no lease that was drawn before is given back to what is blocked
else
    local next_s, next_f = 0, 0
    if what == 'refund' then
        next_s, next_f = tat_s - tonumber(ARGV[7]), tat_f - tonumber(ARGV[8])
        if next_f < 0 then next_s, next_f = next_s - 1, next_f + UNITS end
        if next_s < 0 then next_s, next_f = 0, 0 end
    end
    if is_least and less(next_s, next_f, least_s, least_f) then next_s, next_f = least_s, least_f end
    if is_least then -- what is refunded was charged after the last draw
        charged_s, charged_f = charged_s - (tat_s - next_s), charged_f - (tat_f - next_f)
        if charged_f < 0 then charged_s, charged_f = charged_s - 1, charged_f + UNITS end
        if charged_f >= UNITS then charged_s, charged_f = charged_s + 1, charged_f - UNITS end
    else
        since_s, since_f = now_s, now_f
    end
    tat_s, tat_f = next_s, next_f
end

local lease, full_s, full_f = '', tat_s, tat_f
if has_lease then
    local keep_s, keep_f = add(least_s, least_f, floor(capacity_s / 2), floor(capacity_f / 2) + (capacity_s % 2) * UNITS / 2, UNITS)
    lease = format(' d%d %d %d %d %d %d', charged_s, charged_f, least_s, least_f, since_s, since_f)
    if less(full_s, full_f, keep_s, keep_f) then full_s, full_f = keep_s, keep_f end
end
if what == 'fill' and not has_lease then
    redis.call('DEL', KEYS[1])
else
    keep(format('%d %d', tat_s, tat_f) .. lease .. shape, full_s, full_f)
end
return text and 1 or 0
