-- Writes a token bucket, which expires when it is full; the expiry is rounded up.
local function store_bucket(text, full_s, full_f)
    local ms = (full_s - now_s) * 1000 + floor((full_f - now_f) / 1048576 / 1000000) + EXTRA_MS
    if ms > 0 then
        redis.call('SET', KEYS[1], text, 'PX', format('%d', ms))
    else
        redis.call('DEL', KEYS[1])
    end
end
