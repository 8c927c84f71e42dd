--[[ Decides several buckets together, all or nothing, in one call.

Times are as in head.lua. The caller computes all that depends only on a limit and a cost.

KEYS   the buckets
ARGV   now: seconds and ns, or '' and ''
       operation: 'take' or 'peek'
       for each bucket its limit tag (limit_tag.h), which the text must end with
       then for each bucket: algorithm, mode, keep, and the arguments of the algorithm
         mode  sum of 1: shadow limit, 2: the cost exceeds what the bucket can ever have, 4: the cost is 0
         keep  ms for which the bucket is stored after it is full
       gcra      cost, capacity: each seconds and fraction
       gcra+     the same, then the time in use at the start, and the debt to charge
       reserve   for each of two parts: can pay, cost, capacity, time in use at the start
       interval  seconds, ns, tokens, burst, cost, tokens in use at the start
       fixed     seconds, ns, tokens, cost, count at the start
       sliding   the same
       log       the same
       then the converted texts: the number of the bucket, its stored text, its converted text
       and how many of these there are

A token bucket with tokens out on lease has a lease record before its limit tag (lease.lua). A blocked bucket (nothing
passes before a given time, whatever it has) has ' h', seconds and ns before its limit tag, and a ! after it.

Reply: seconds and ns of now; 1 if the cost was taken, else 0; and the text of each bucket as it was, or nothing. 2 instead
of 1 or 0: nothing was done, because a bucket was written under another limit.
]]
local fmod, byte = math.fmod, string.byte
local takes = ARGV[3] == 'take'

-- Reads the buckets. A bucket written under another limit can be used only if the caller has sent its converted text.
local answer = {now_s, now_ns, 1}
local is_changed, blocks
for i = 1, #KEYS do
    local text, limit_tag = redis.call('GET', KEYS[i]), ARGV[3 + i]
    if text and sub(text, -#limit_tag) ~= limit_tag then
        if sub(text, -#limit_tag - 1) ~= limit_tag .. '!' then
            local converted
            for argument = #ARGV - 3 * tonumber(ARGV[#ARGV]), #ARGV - 1, 3 do
                if ARGV[argument] == tostring(i) and ARGV[argument + 1] == text then converted = ARGV[argument + 2] end
            end
            if not converted then answer[3] = 2 end
            is_changed = is_changed or {}
            text, is_changed[i] = converted or text, true
        end
        local numbers, block_s, block_ns = match(text, '^([%d ]*%d) h(%d+) (%d+) ')
        if numbers then
            blocks = blocks or {}
            blocks[i] = {numbers .. limit_tag, tonumber(block_s), tonumber(block_ns)}
        end
    end
    answer[i + 3] = text
end
if answer[3] == 2 then return answer end
local at = 4 + #KEYS

-- Each algorithm reads its arguments from index `at` on, and the bucket's text (false: no bucket). It returns whether the
-- cost fits, and the bucket after that: its text, and when it is full. Then the fallback, which is written if the cost is
-- not taken: the text and full time of a bucket that did not start full, was converted (changed), or is charged a debt.
local function take_time(tat_s, tat_f, first, debt)
    local cost_s, cost_f = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
    local old_s, old_f = tat_s, tat_f
    if less(tat_s, tat_f, now_s, now_f) then tat_s, tat_f = now_s, now_f end
    if debt then
        tat_s, tat_f = add(tat_s, tat_f, tonumber(ARGV[debt]), tonumber(ARGV[debt + 1]), UNITS)
        old_s, old_f = tat_s, tat_f
    end
    local next_s, next_f = add(tat_s, tat_f, cost_s, cost_f, UNITS)
    local room_s, room_f = add(now_s, now_f, tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3]), UNITS)
    local fits = not less(room_s, room_f, next_s, next_f)
    return fits, next_s, next_f, old_s, old_f
end

local function charge_lease(text, from, first, has_extra)
    local charged_s, charged_f, min_tat_s, min_tat_f, since = match(text, '^d(%d+) (%d+) (%d+) (%d+) (%d+ %d+) ', from)
    if not charged_s then return '', 0, 0 end
    charged_s, charged_f = tonumber(charged_s), tonumber(charged_f)
    local half_s, half_f = tonumber(ARGV[first + 2]) / 2, tonumber(ARGV[first + 3]) / 2
    half_s, half_f = floor(half_s), floor(half_f) + (half_s - floor(half_s)) * UNITS
    local record_until_s, record_until_f = add(tonumber(min_tat_s), tonumber(min_tat_f), half_s, half_f, UNITS)
    if not less(now_s, now_f, record_until_s, record_until_f) then return '', 0, 0 end
    if less(charged_s, charged_f, now_s, now_f) then charged_s, charged_f = now_s, now_f end
    charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV[first]), tonumber(ARGV[first + 1]), UNITS)
    if has_extra then
        charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7]), UNITS)
    end
    return format(' d%d %d %s %s %s', charged_s, charged_f, min_tat_s, min_tat_f, since), record_until_s, record_until_f
end

local function gcra(text, changed, has_extra)
    local first = at
    local tat_s, tat_f, has_start, has_debt = now_s, now_f
    local rest, lease_record, record_until_s, record_until_f = nil, '', 0, 0
    at = at + (has_extra and 8 or 4)
    if text then
        tat_s, tat_f, rest = match(text, '^(%d+) (%d+) ()%D')
        tat_s, tat_f = read_time(tat_s, tat_f)
        if not tat_s then return nil end
        -- Tokens are out on lease: the lease record stays, and counts what is charged now (lease.lua).
        if byte(text, rest) == 100 then lease_record, record_until_s, record_until_f = charge_lease(text, rest, first, has_extra) end
    elseif has_extra then
        tat_s, tat_f = add(now_s, now_f, tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]), UNITS)
        has_start = ARGV[first + 4] ~= '0' or ARGV[first + 5] ~= '0'
    end
    if has_extra then has_debt = ARGV[first + 6] ~= '0' or ARGV[first + 7] ~= '0' end
    local fits, next_s, next_f, old_s, old_f = take_time(tat_s, tat_f, first, has_debt and first + 6)
    local has_fallback = changed or has_debt or has_start
    if less(next_s, next_f, record_until_s, record_until_f) then -- stored at least until the lease record expires
        return fits, format('%d %d', next_s, next_f) .. lease_record, record_until_s, record_until_f / 1048576,
            has_fallback and format('%d %d', old_s, old_f) .. lease_record, record_until_s, record_until_f / 1048576
    end
    return fits, format('%d %d', next_s, next_f) .. lease_record, next_s, next_f / 1048576,
        has_fallback and format('%d %d', old_s, old_f) .. lease_record, old_s, old_f / 1048576
end

-- The other algorithms. Created only when needed, because each call of a script creates its functions again.
local function make_other_algorithms()
    local algorithms = {}

    -- Reads a time and counts; nil if they are not valid.
    local function numbers(text, pattern)
        local a, b, c, d = match(text, pattern)
        local s, ns = read_time(a, b, 1000000000)
        c, d = tonumber(c), tonumber(d)
        if not s or c > 9007199254740991 or (d and d > 9007199254740991) then return nil end
        return s, ns, c, d
    end

    -- The leading numbers of a text, unchanged.
    local function numbers_of(text)
        return match(text, '^[%d ]*%d')
    end

    -- a * (s, ns) for a below 2^32, as three numbers: 10^9 seconds, seconds, ns.
    local function multiply(a, s, ns)
        local low = fmod(a, 65536)
        local high = (a - low) / 65536
        local function scale(b)
            local y = high * b
            local y_r = fmod(y, 1000000000)
            local x = low * b + y_r * 65536
            local x_r = fmod(x, 1000000000)
            return (y - y_r) / 1000000000 * 65536 + (x - x_r) / 1000000000, x_r
        end
        local carry, product_ns = scale(ns)
        local product_h, product_s = scale(s)
        product_s = product_s + carry
        local rest = fmod(product_s, 1000000000)
        return product_h + (product_s - rest) / 1000000000, rest, product_ns
    end

    -- The same as a time: less than 2^53 seconds.
    local function times(a, s, ns)
        local high, low, rest = multiply(a, s, ns)
        return high * 1000000000 + low, rest
    end

    -- How often (p_s, p_ns) fits into (s, ns), and the remainder. The estimate is off by at most one unless the quotient
    -- is large; then the remainder is divided again.
    local function divide(s, ns, p_s, p_ns)
        local count = 0
        local period = p_s + p_ns / 1e9
        while not less(s, ns, p_s, p_ns) do
            local guess = floor((s + ns / 1e9) / period)
            if guess > 2147483647 then guess = 2147483647 end
            if guess < 1 then guess = 1 end
            local q_s, q_ns = times(guess, p_s, p_ns)
            while less(s, ns, q_s, q_ns) do
                guess = guess - 1
                q_s, q_ns = times(guess, p_s, p_ns)
            end
            s, ns = s - q_s, ns - q_ns
            if ns < 0 then s, ns = s - 1, ns + 1000000000 end
            count = count + guess
        end
        return count, s, ns
    end

    -- The end of the window that contains now. Two divisions for windows below 1 s, whose number since the epoch is large.
    local function window_end(p_s, p_ns)
        local s, ns = now_s, now_ns
        if p_s == 0 then
            local big_s, big_ns = times(1048576, p_s, p_ns)
            s, ns = select(2, divide(s, ns, big_s, big_ns))
        end
        s, ns = select(2, divide(s, ns, p_s, p_ns))
        s, ns = now_s - s, now_ns - ns
        if ns < 0 then s, ns = s - 1, ns + 1000000000 end
        return add(s, ns, p_s, p_ns, 1000000000)
    end

    function algorithms.reserve(text, changed)
        local first = at
        at = at + 14
        local tats = {}
        if text then
            local a, b, c, d = match(text, '^(%d+) (%d+) (%d+) (%d+) %D')
            tats[1], tats[2] = read_time(a, b)
            tats[3], tats[4] = read_time(c, d)
            if not tats[1] or not tats[3] then return nil end
        else
            local a_s, a_f = add(now_s, now_f, tonumber(ARGV[first + 5]), tonumber(ARGV[first + 6]), UNITS)
            local b_s, b_f = add(now_s, now_f, tonumber(ARGV[first + 12]), tonumber(ARGV[first + 13]), UNITS)
            tats = {a_s, a_f, b_s, b_f}
        end
        local function encode()
            local s, f = tats[1], tats[2]
            if less(s, f, tats[3], tats[4]) then s, f = tats[3], tats[4] end
            return format('%d %d %d %d', tats[1], tats[2], tats[3], tats[4]), s, f / 1048576
        end
        local old_text, old_s, old_ns = encode()
        local has_fallback = changed or (not text and less(now_s, now_ns, old_s, old_ns))
        local fits = false
        for part = 0, 1 do
            local part_at = first + 7 * part
            if not fits and ARGV[part_at] == '1' then
                local part_fits, next_s, next_f = take_time(tats[2 * part + 1], tats[2 * part + 2], part_at + 1)
                if part_fits then
                    -- The part that does not pay is moved up to now, in case the clock runs backwards (core/reserve.h).
                    local other = 3 - 2 * part
                    if less(tats[other], tats[other + 1], now_s, now_f) then
                        tats[other], tats[other + 1] = now_s, now_f
                    end
                    fits, tats[2 * part + 1], tats[2 * part + 2] = true, next_s, next_f
                end
            end
        end
        local next_text, next_s, next_ns = encode()
        return fits, next_text, next_s, next_ns, has_fallback and old_text, old_s, old_ns
    end

    -- How many refill points of the interval are still to come; see core/interval.h.
    local function points_to_come(full_s, full_ns, p_s, p_ns)
        if not less(now_s, now_ns, full_s, full_ns) then return 0 end
        local s, ns = full_s - now_s, full_ns - now_ns - 1
        if ns < 0 then s, ns = s - 1, ns + 1000000000 end
        return (divide(s, ns, p_s, p_ns)) + 1
    end

    function algorithms.interval(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local amount, burst = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
        local cost, start_used = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
        at = at + 6
        local full_s, full_ns, points, out = now_s, now_ns, 0, 0
        local old_text, old_s, old_ns
        if text then
            local spare
            full_s, full_ns, spare = numbers(text, '^(%d+) (%d+) (%d+) %D')
            if not full_s then return nil end
            -- A bucket with more in use than its burst (e.g. blocked) has no room, and may have too many points to compute.
            local max_s, max_ns = times(floor(burst / amount) + 2, p_s, p_ns)
            max_s, max_ns = add(now_s, now_ns, max_s, max_ns, 1000000000)
            if less(max_s, max_ns, full_s, full_ns) then
                return false, '', 0, 0, changed and numbers_of(text), full_s, full_ns
            end
            old_text, old_s, old_ns = changed and numbers_of(text), full_s, full_ns
            points = points_to_come(full_s, full_ns, p_s, p_ns)
            if points > 0 then out = points * amount - spare else full_s, full_ns = now_s, now_ns end
        else
            out = start_used
        end
        local function encode(tokens_used)
            local needed = tokens_used == 0 and 0 or floor((tokens_used - 1) / amount) + 1
            local s, ns = times(needed - points, p_s, p_ns)
            s, ns = add(full_s, full_ns, s, ns, 1000000000)
            return format('%d %d %d', s, ns, needed * amount - tokens_used), s, ns
        end
        if not text and out > 0 then old_text, old_s, old_ns = encode(out) end
        local next_text, next_s, next_ns = encode(out + cost)
        return out + cost <= burst, next_text, next_s, next_ns, old_text, old_s, old_ns
    end

    function algorithms.fixed(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local tokens, cost, count = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
        at = at + 5
        local end_s, end_ns = window_end(p_s, p_ns)
        local fallback = not text and count > 0 and format('%d %d %d', end_s, end_ns, count)
        local fallback_s, fallback_ns = end_s, end_ns
        if text then
            local old_s, old_ns, old_count = numbers(text, '^(%d+) (%d+) (%d+) %D')
            if not old_s then return nil end
            fallback, fallback_s, fallback_ns = changed and numbers_of(text), old_s, old_ns
            count = 0
            if old_count > 0 and not less(old_s, old_ns, end_s, end_ns) then
                end_s, end_ns, count = old_s, old_ns, old_count
            end
        end
        return count + cost <= tokens, format('%d %d %d', end_s, end_ns, count + cost), end_s, end_ns,
            fallback, fallback_s, fallback_ns
    end

    function algorithms.sliding(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local tokens, cost, current = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
        at = at + 5
        local previous = 0
        local end_s, end_ns = window_end(p_s, p_ns)
        local fallback = not text and current > 0 and format('%d %d %d 0', end_s, end_ns, current)
        local fallback_s, fallback_ns = end_s, end_ns
        if text then
            local old_s, old_ns, old_current, old_previous = numbers(text, '^(%d+) (%d+) (%d+) (%d+) %D')
            if not old_s then return nil end
            fallback, fallback_s, fallback_ns = changed and numbers_of(text), old_s, old_ns
            current = 0
            if old_current > 0 or old_previous > 0 then
                local after_s, after_ns = add(old_s, old_ns, p_s, p_ns, 1000000000)
                if not less(old_s, old_ns, end_s, end_ns) then
                    end_s, end_ns, current, previous = old_s, old_ns, old_current, old_previous
                elseif after_s == end_s and after_ns == end_ns then
                    previous = old_current
                end
            end
        end
        local left_s, left_ns = end_s - now_s, end_ns - now_ns
        if left_ns < 0 then left_s, left_ns = left_s - 1, left_ns + 1000000000 end
        if less(p_s, p_ns, left_s, left_ns) then left_s, left_ns = p_s, p_ns end
        local room = tokens - cost - current
        local fits = room >= 0
        if fits and previous > 0 then
            local a, b, c = multiply(room, p_s, p_ns)
            local d, e, f = multiply(previous, left_s, left_ns)
            fits = not (a < d or (a == d and less(b, c, e, f)))
        end
        local full_s, full_ns = add(end_s, end_ns, p_s, p_ns, 1000000000)
        fallback_s, fallback_ns = add(fallback_s, fallback_ns, p_s, p_ns, 1000000000)
        return fits, format('%d %d %d %d', end_s, end_ns, current + cost, previous), full_s, full_ns,
            fallback, fallback_s, fallback_ns
    end

    -- Runs of tokens that come back together, earliest first (log_codec.h). Runs that are back already are needed only
    -- if the clock runs backwards.
    function algorithms.log(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local tokens, cost, start = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
        at = at + 5
        local back_s, back_ns = add(now_s, now_ns, p_s, p_ns, 1000000000)
        local fallback = not text and start > 0 and format('%d %d %d', back_s, back_ns, start)
        local fallback_s, fallback_ns = back_s, back_ns
        if fallback and start < tokens and ARGV[1] ~= '' then -- these tokens exist since now: not for a clock that runs backwards
            fallback = format('%d %d %d ', now_s, now_ns, tokens - start) .. fallback
        end
        local runs, total, out, first = {}, 0, 0
        if text or fallback then
            local all = text and numbers_of(text) or fallback
            if not all then return nil end
            for s, ns, count in string.gmatch(all .. ' ', '(%d+) (%d+) (%d+) ') do
                s, ns = read_time(s, ns, 1000000000)
                if not s or tonumber(count) > tokens then return nil end
                local run = {s, ns, tonumber(count)}
                runs[#runs + 1] = run
                total = total + run[3]
                if less(now_s, now_ns, run[1], run[2]) then
                    out = out + run[3]
                    first = first or #runs
                end
            end
            local last = runs[#runs]
            if not last then return nil end
            if changed then fallback, fallback_s, fallback_ns = all, last[1], last[2] end
            if not less(last[1], last[2], back_s, back_ns) then
                back_s, back_ns = last[1], last[2]
            end
        end
        if out + cost > tokens then return false, '', 0, 0, fallback, fallback_s, fallback_ns end
        if ARGV[1] ~= '' then
            local drop = total + cost - tokens
            first = 1
            while first <= #runs and drop >= runs[first][3] do
                drop = drop - runs[first][3]
                first = first + 1
            end
            if drop > 0 and first <= #runs then runs[first][3] = runs[first][3] - drop end
        end
        local last = runs[#runs]
        if first and first <= #runs and last[1] == back_s and last[2] == back_ns then
            last[3] = last[3] + cost
        else
            runs[#runs + 1] = {back_s, back_ns, cost}
        end
        local parts = {}
        for i = first or #runs, #runs do parts[#parts + 1] = format('%d %d %d', runs[i][1], runs[i][2], runs[i][3]) end
        return true, table.concat(parts, ' '), back_s, back_ns, fallback, fallback_s, fallback_ns
    end

    return algorithms
end

-- Writes a bucket that is full at the given time; it expires `keep` ms after that.
local function write(key, text, limit_tag, full_s, full_ns, keep, block)
    if block then
        text = format('%s h%d %d', text, block[2], block[3])
        if less(full_s, full_ns, block[2], block[3]) then full_s, full_ns = block[2], block[3] end
    end
    local ms = (full_s - now_s) * 1000 + floor((full_ns - now_ns) / 1000000) + EXTRA_MS + keep
    if ms >= EXTRA_MS or ARGV[1] ~= '' then -- a now from ARGV may run backwards
        redis.call('SET', key, text .. limit_tag .. (block and '!' or ''), 'PX', format('%d', math.max(ms, EXTRA_MS)))
    else
        redis.call('DEL', key)
    end
end

-- Decides each bucket; then writes those that change.
local taken = 1
local plans = {}
local algorithms
for i = 1, #KEYS do
    local algorithm, mode, keep = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
    local is_shadow, is_never, is_free = mode % 2 == 1, mode % 4 >= 2, mode >= 4
    local changed = is_changed and is_changed[i]
    local decide = gcra
    at = at + 3
    if algorithm ~= 'gcra' and algorithm ~= 'gcra+' then
        algorithms = algorithms or make_other_algorithms()
        decide = algorithms[algorithm]
    end
    local block = blocks and blocks[i]
    local fits, text, full_s, full_ns, fallback, fallback_s, fallback_ns =
        decide(block and block[1] or answer[i + 3], changed, algorithm == 'gcra+')
    if fits == nil then
        return redis.error_reply('RATION the bucket ' .. KEYS[i] .. ' holds something else: ' .. answer[i + 3])
    end
    if block and not less(now_s, now_ns, block[2], block[3]) then block = nil end
    fits = is_free or (fits and not is_never and (is_shadow or not block))
    if not fits and not is_shadow then taken = 0 end
    if is_free or not fits then text = nil end
    if is_free and not changed then fallback = nil end
    plans[i] = {keep, is_shadow, text, full_s, full_ns, fallback, fallback_s, fallback_ns, block}
end
answer[3] = taken
for i = 1, takes and #KEYS or 0 do
    local keep, is_shadow, text, full_s, full_ns, fallback, fallback_s, fallback_ns, block = unpack(plans[i], 1, 9)
    if text and (is_shadow or taken == 1) then
        write(KEYS[i], text, ARGV[3 + i], full_s, full_ns, keep, block)
    elseif fallback then
        write(KEYS[i], fallback, ARGV[3 + i], fallback_s, fallback_ns, keep, block)
    end
end
return answer
