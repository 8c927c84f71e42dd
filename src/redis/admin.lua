--[[ Refunds, fills or blocks a token bucket for an administrator, in one call, so that takes of other clients cannot
interfere.

If tokens of the bucket are out on lease, its text has a lease record: ' d' and three times (lease.lua). It limits how full
the bucket may be made. To give back more than was taken since the last lease would also give back the leased tokens, which
may still be spent.

KEYS   the bucket
ARGV   now: seconds and ns, or '' and ''
       the limit tag, which the bucket's text must end with
       operation: 'refund', 'fill' or 'block'
       capacity: seconds and fraction
       refund: the time that the tokens are worth, seconds and fraction
       block: its length, seconds and ns; and the time of all tokens but one, seconds and fraction

Reply: 1, or 0 if there was no such bucket. 2: nothing was done, because the bucket was written under another limit.
]]
local MAX_S, MAX_F = 9223372036, 854775807 * 1048576 -- 2^63 - 1 ns
local limit_tag, operation = ARGV[3], ARGV[4]
local capacity_s, capacity_f = tonumber(ARGV[5]), tonumber(ARGV[6])

local text = redis.call('GET', KEYS[1])
local tat_s, tat_f = now_s, now_f
local charged_s, charged_f, min_tat_s, min_tat_f, since_s, since_f
if text then
    if sub(text, -#limit_tag) ~= limit_tag then return 2 end
    tat_s, tat_f = read_time(match(text, '^(%d+) (%d+) %D'))
    if not tat_s then
        return redis.error_reply('RATION the bucket ' .. KEYS[1] .. ' holds something else: ' .. text)
    end
    charged_s, charged_f, min_tat_s, min_tat_f, since_s, since_f =
        match(text, ' d(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
elseif operation ~= 'block' then
    return 0
end

local has_lease = charged_s ~= nil
charged_s, charged_f = tonumber(charged_s or 0), tonumber(charged_f or 0)
min_tat_s, min_tat_f = tonumber(min_tat_s or 0), tonumber(min_tat_f or 0)
since_s, since_f = tonumber(since_s or 0), tonumber(since_f or 0)
local has_min_tat = less(now_s, now_f, min_tat_s, min_tat_f)
if operation == 'block' then
    local length_s, length_f = tonumber(ARGV[7]), tonumber(ARGV[8]) * 1048576
    local until_s, until_f = add(now_s, now_f, length_s, length_f, UNITS)
    if less(MAX_S, MAX_F, until_s, until_f) then until_s, until_f = MAX_S, MAX_F end
    until_s, until_f = add(until_s, until_f, tonumber(ARGV[9]), tonumber(ARGV[10]), UNITS)
    if not less(tat_s, tat_f, until_s, until_f) then return 1 end
    tat_s, tat_f = until_s, until_f
    since_s, since_f = now_s, now_f -- no lease acquired before may be returned to a blocked bucket
else
    local next_s, next_f = 0, 0
    if operation == 'refund' then
        next_s, next_f = tat_s - tonumber(ARGV[7]), tat_f - tonumber(ARGV[8])
        if next_f < 0 then next_s, next_f = next_s - 1, next_f + UNITS end
        if next_s < 0 then next_s, next_f = 0, 0 end
    end
    if has_min_tat and less(next_s, next_f, min_tat_s, min_tat_f) then next_s, next_f = min_tat_s, min_tat_f end
    if has_min_tat then -- what is refunded was charged after the last lease
        charged_s, charged_f = charged_s - (tat_s - next_s), charged_f - (tat_f - next_f)
        if charged_f < 0 then charged_s, charged_f = charged_s - 1, charged_f + UNITS end
        if charged_f >= UNITS then charged_s, charged_f = charged_s + 1, charged_f - UNITS end
    else
        since_s, since_f = now_s, now_f
    end
    tat_s, tat_f = next_s, next_f
end

local lease_record, full_s, full_f = '', tat_s, tat_f
if has_lease then
    local record_until_s, record_until_f = add(min_tat_s, min_tat_f, floor(capacity_s / 2), floor(capacity_f / 2) + (capacity_s % 2) * UNITS / 2, UNITS)
    lease_record = format(' d%d %d %d %d %d %d', charged_s, charged_f, min_tat_s, min_tat_f, since_s, since_f)
    if less(full_s, full_f, record_until_s, record_until_f) then full_s, full_f = record_until_s, record_until_f end
end
if operation == 'fill' and not has_lease then
    redis.call('DEL', KEYS[1])
else
    store_bucket(format('%d %d', tat_s, tat_f) .. lease_record .. limit_tag, full_s, full_f)
end
return text and 1 or 0
