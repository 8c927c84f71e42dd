-- GCRA in Redis, as one would write it with care: one string per key that holds the theoretical
-- arrival time in microseconds and lives until the bucket is full again; Redis' own clock; a
-- denial writes nothing. Answers as CL.THROTTLE does.
--
--     EVALSHA sha 1 KEY max_burst count period [quantity]
local burst = tonumber(ARGV[1]) + 1
local period_us = tonumber(ARGV[3]) * 1000000
local interval_us = period_us / tonumber(ARGV[2])
local quantity = tonumber(ARGV[4] or 1)

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])

local tat_us = tonumber(redis.call('GET', KEYS[1]) or now_us)
if tat_us < now_us then
    tat_us = now_us
end

local capacity_us = interval_us * burst
local next_us = tat_us + interval_us * quantity
local over_us = next_us - capacity_us - now_us
local limited, retry_s = 0, -1
if over_us > 0 then
    limited = 1
    if interval_us * quantity <= capacity_us then
        retry_s = math.ceil(over_us / 1000000)
    end
else
    tat_us = next_us
    local ttl_ms = math.ceil((tat_us - now_us) / 1000)
    if ttl_ms > 0 then
        redis.call('SET', KEYS[1], string.format('%.0f', tat_us), 'PX', ttl_ms)
    end
end

local used_us = tat_us - now_us
return {
    limited, burst, math.floor((capacity_us - used_us) / interval_us), retry_s,
    math.ceil(used_us / 1000000)
}
