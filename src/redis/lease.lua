--[[ Takes a cost from one bucket, and leases tokens to a node, which spends them locally before the lease ends.

Leased tokens count as spent when the lease ends, however early the node spends them: so no interval has more than its
limit. If the cost does not fit, nothing is leased. Times are as in head.lua.

The text of a bucket with tokens out on lease has a lease record before its limit tag: ' d' and three times, each seconds
and fraction.

    charged   grows by all that is taken and leased; it is first moved up to now if it is earlier
    min_tat   the bucket's arrival time after the last lease: until then an administrator cannot make it fuller (admin.lua)
    since     leases acquired before this time cannot be returned: there was no record, or the bucket was blocked or of
              another limit

Unused tokens are returned as if that much less had been leased: what was charged since then moves to an earlier time. But
nothing may move to before the end of the lease it belongs to, which is at most a quarter of the capacity from now. How
much was charged since is known from the number of the lease: `charged` at that time in 256ths of the capacity, modulo
4096. A bucket is not charged 16 capacities within the time in which a lease can be returned (local_lease.c: three quarters
of the time to fill), because refunds are subtracted from `charged`; so numbers do not wrap around in that time.

KEYS   the bucket
ARGV   now: seconds and ns, or '' and ''
       the limit tag; the stored text of the bucket and its converted text, or '' and ''
       the number of the lease that tokens are returned of
       capacity, length of the lease, tokens returned, upper bound of the age of their lease, cost: each seconds and fraction
       then the amounts wanted, largest first: tokens, and their time in seconds and fraction

Reply: seconds and ns of now; 1 if the cost was taken, else 0; the text of the bucket after the return and before the cost,
or nothing; how many tokens were leased; the number of the lease. 2 instead of 1 or 0: as in take.lua.
]]
local tat_s, tat_f = now_s, now_f
local text = redis.call('GET', KEYS[1])
local limit_tag, is_converted = ARGV[3], false
if text and sub(text, -#limit_tag) ~= limit_tag then
    if sub(text, -#limit_tag - 1) ~= limit_tag .. '!' then
        if text ~= ARGV[4] then return {now_s, now_ns, 2, text, 0, 0} end
        text, is_converted = ARGV[5], true
    end
    local block_s, block_ns = match(text, ' h(%d+) (%d+) ')
    if block_s and less(now_s, now_ns, tonumber(block_s), tonumber(block_ns)) then
        return {now_s, now_ns, 0, text, 0, 0}
    end
end
if text then
    tat_s, tat_f = read_time(match(text, '^(%d+) (%d+) %D'))
    if not tat_s then
        return redis.error_reply('RATION the bucket ' .. KEYS[1] .. ' holds something else: ' .. text)
    end
end

local capacity_s, capacity_f = tonumber(ARGV[7]), tonumber(ARGV[8])
local function to_us(s, f)
    return s * 1000000 + floor(f / 1048576000)
end

local step = floor(to_us(capacity_s, capacity_f) / 256) -- in us, like the values compared with it
if step < 1 then step = 1 end
local charged_s, charged_f, min_tat_s, min_tat_f, since_s, since_f =
    match(text or '', ' d(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
local has_lease = charged_s ~= nil
charged_s, charged_f = tonumber(charged_s or now_s), tonumber(charged_f or now_f)
min_tat_s, min_tat_f = tonumber(min_tat_s or 0), tonumber(min_tat_f or 0)
since_s, since_f = tonumber(since_s or 0), tonumber(since_f or 0)
-- Nothing is known of the time before this record (an older one may have expired), so older numbers are not valid.
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
    -- Steps charged since that lease, plus a quarter of the capacity (64), plus rounding errors (4).
    local behind = (number_of(charged_s, charged_f) - tonumber(ARGV[6])) % 4096 + 64 + 4
    local need_s, need_f = subtract(tat_s, tat_f, now_s, now_f)
    need_s, need_f = subtract(need_s, need_f, back_s, back_f)
    local acquired_s, acquired_f = subtract(now_s, now_f, tonumber(ARGV[13]), tonumber(ARGV[14]))
    is_back = to_us(need_s, need_f) >= behind * step and less(since_s, since_f, acquired_s, acquired_f)
end
if is_back then
    tat_s, tat_f = subtract(tat_s, tat_f, back_s, back_f)
    min_tat_s, min_tat_f = subtract(min_tat_s, min_tat_f, back_s, back_f)
    text = format('%d %d', tat_s, tat_f) .. limit_tag
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
local granted = 0
for i = 17, taken == 1 and #ARGV or 0, 3 do
    local next_s, next_f = add(base_s, base_f, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), UNITS)
    if not less(room_s, room_f, next_s, next_f) then
        granted, tat_s, tat_f = tonumber(ARGV[i]), next_s, next_f
        charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), UNITS)
        min_tat_s, min_tat_f = tat_s, tat_f
        break
    end
end

-- No tokens are returned later than half of the time to fill after min_tat: the record is stored until then.
local record_until_s, record_until_f = add(min_tat_s, min_tat_f, floor(capacity_s / 2), floor(capacity_f / 2) + (capacity_s % 2) * UNITS / 2, UNITS)
local lease_record, full_s, full_f = '', tat_s, tat_f
if granted > 0 or (has_lease and less(now_s, now_f, record_until_s, record_until_f)) then
    local round = 4096 * step -- subtracting it changes no lease number
    if to_us(charged_s, charged_f) > to_us(now_s, now_f) + round then
        local rest = round % 1000000
        charged_s, charged_f = subtract(charged_s, charged_f, (round - rest) / 1000000, rest * 1048576000)
    end
    lease_record = format(' d%d %d %d %d %d %d', charged_s, charged_f, min_tat_s, min_tat_f, since_s, since_f)
    if less(full_s, full_f, record_until_s, record_until_f) then full_s, full_f = record_until_s, record_until_f end
end
if granted > 0 or is_back or (has_cost and taken == 1) then
    store_bucket(format('%d %d', tat_s, tat_f) .. lease_record .. limit_tag, full_s, full_f)
end
return {now_s, now_ns, taken, text, granted, number_of(charged_s, charged_f)}
