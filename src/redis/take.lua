--[[ Several buckets decided together, all or nothing, in one call.

Times are as in head.lua. What can be computed from a limit and a cost alone comes computed.

KEYS   the buckets
ARGV   now: seconds and ns, or '' and ''
       what: 'take' or 'look'
       of each bucket how its text ends: the limit that it is asked about (shape.h)
       then for each bucket: algorithm, mode, keep, and the algorithm's own
         mode  sum of 1: in the shadow, 2: costs more than there can ever be, 4: costs nothing
         keep  ms that the bucket is remembered after it is full
       gcra      cost, capacity: each seconds and rest
       gcra+     the same, and debt at the start, what was taken elsewhere
       reserve   of each of two: can pay, cost, capacity, debt at the start
       interval  seconds, ns, tokens, burst, cost, tokens out at the start
       fixed     seconds, ns, tokens, cost, count at the start
       sliding   the same
       log       the same
       then texts that stand for others: the number of the bucket, what it was, what it is instead
       and how many of these there are

A token bucket of which tokens are out on lease says so before its end (lease.lua). A bucket that is held (nothing passes before a moment, whatever it has) says so before its end: ' h', seconds and
ns; and a ! behind it.

Answer: seconds and ns of now, 1 if taken or 0, and each bucket as it was: its text, or nothing. 2 instead of
these: nothing was done, since a bucket was written under another limit.
]]
local fmod, byte = math.fmod, string.byte
local takes = ARGV[3] == 'take'

-- The buckets. Of what was written under another limit only what stands for it can be read.
local answer = {now_s, now_ns, 1}
local is_changed, holds
for i = 1, #KEYS do
    local text, shape = redis.call('GET', KEYS[i]), ARGV[3 + i]
    if text and sub(text, -#shape) ~= shape then
        if sub(text, -#shape - 1) ~= shape .. '!' then
            local instead
            for change = #ARGV - 3 * tonumber(ARGV[#ARGV]), #ARGV - 1, 3 do
                if ARGV[change] == tostring(i) and ARGV[change + 1] == text then instead = ARGV[change + 2] end
            end
            if not instead then answer[3] = 2 end
            is_changed = is_changed or {}
            text, is_changed[i] = instead or text, true
        end
        local numbers, hold_s, hold_ns = match(text, '^([%d ]*%d) h(%d+) (%d+) ')
        if numbers then
            holds = holds or {}
            holds[i] = {numbers .. shape, tonumber(hold_s), tonumber(hold_ns)}
        end
    end
    answer[i + 3] = text
end
if answer[3] == 2 then return answer end
local at = 4 + #KEYS

-- Each reads its arguments from `at` on and the bucket's text (false: it is not there), and tells whether
-- the cost fits, and what the bucket then is: its text, and when it is full. Then the same of what is to be
-- written also if the cost is not taken: a bucket that did not start full, or is of another limit now (changed),
-- or what was taken elsewhere.
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

local function charge_lease(text, from, first, has_more)
    local charged_s, charged_f, least_s, least_f, since = match(text, '^d(%d+) (%d+) (%d+) (%d+) (%d+ %d+) ', from)
    if not charged_s then return '', 0, 0 end
    charged_s, charged_f = tonumber(charged_s), tonumber(charged_f)
    local half_s, half_f = tonumber(ARGV[first + 2]) / 2, tonumber(ARGV[first + 3]) / 2
    half_s, half_f = floor(half_s), floor(half_f) + (half_s - floor(half_s)) * UNITS
    local keep_s, keep_f = add(tonumber(least_s), tonumber(least_f), half_s, half_f, UNITS)
    if not less(now_s, now_f, keep_s, keep_f) then return '', 0, 0 end
    if less(charged_s, charged_f, now_s, now_f) then charged_s, charged_f = now_s, now_f end
    charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV[first]), tonumber(ARGV[first + 1]), UNITS)
    if has_more then
        charged_s, charged_f = add(charged_s, charged_f, tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7]), UNITS)
    end
    return format(' d%d %d %s %s %s', charged_s, charged_f, least_s, least_f, since), keep_s, keep_f
end

local function gcra(text, changed, has_more)
    local first = at
    local tat_s, tat_f, has_start, has_debt = now_s, now_f
    local rest, lease, keep_s, keep_f = nil, '', 0, 0
    at = at + (has_more and 8 or 4)
    if text then
        tat_s, tat_f, rest = match(text, '^(%d+) (%d+) ()%D')
        tat_s, tat_f = moment(tat_s, tat_f)
        if not tat_s then return nil end
        -- Tokens are out on lease: that is remembered, and what is charged now (lease.lua).
        if byte(text, rest) == 100 then lease, keep_s, keep_f = charge_lease(text, rest, first, has_more) end
    elseif has_more then
        tat_s, tat_f = add(now_s, now_f, tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]), UNITS)
        has_start = ARGV[first + 4] ~= '0' or ARGV[first + 5] ~= '0'
    end
    if has_more then has_debt = ARGV[first + 6] ~= '0' or ARGV[first + 7] ~= '0' end
    local fits, next_s, next_f, old_s, old_f = take_time(tat_s, tat_f, first, has_debt and first + 6)
    local is_kept = changed or has_debt or has_start
    if less(next_s, next_f, keep_s, keep_f) then -- so long it is remembered
        return fits, format('%d %d', next_s, next_f) .. lease, keep_s, keep_f / 1048576,
            is_kept and format('%d %d', old_s, old_f) .. lease, keep_s, keep_f / 1048576
    end
    return fits, format('%d %d', next_s, next_f) .. lease, next_s, next_f / 1048576,
        is_kept and format('%d %d', old_s, old_f) .. lease, old_s, old_f / 1048576
end

-- The others, which are made only where they are needed: a script makes its functions anew in each call.
local function make_others()
    local algorithms = {}

    -- A moment, and counts; nil if they are none.
    local function numbers(text, pattern)
        local a, b, c, d = match(text, pattern)
        local s, ns = moment(a, b, 1000000000)
        c, d = tonumber(c), tonumber(d)
        if not s or c > 9007199254740991 or (d and d > 9007199254740991) then return nil end
        return s, ns, c, d
    end

    -- The numbers of a text as they are.
    local function numbers_of(text)
        return match(text, '^[%d ]*%d')
    end

    -- a * (s, ns) for a below 2^32, as three words: 10^9 seconds, seconds, ns.
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
        local carry, words_ns = scale(ns)
        local words_h, words_s = scale(s)
        words_s = words_s + carry
        local rest = fmod(words_s, 1000000000)
        return words_h + (words_s - rest) / 1000000000, rest, words_ns
    end

    -- The same as a time: less than 2^53 seconds.
    local function times(a, s, ns)
        local high, low, rest = multiply(a, s, ns)
        return high * 1000000000 + low, rest
    end

    -- How often (p_s, p_ns) fits into (s, ns), and what is left. The estimate is off by one at most, and by a
    -- large number only where a large one is asked for: then what is left is divided again.
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

    -- The end of the window that now lies in. For short windows, far from the epoch, in two steps.
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
            tats[1], tats[2] = moment(a, b)
            tats[3], tats[4] = moment(c, d)
            if not tats[1] or not tats[3] then return nil end
        else
            local a_s, a_f = add(now_s, now_f, tonumber(ARGV[first + 5]), tonumber(ARGV[first + 6]), UNITS)
            local b_s, b_f = add(now_s, now_f, tonumber(ARGV[first + 12]), tonumber(ARGV[first + 13]), UNITS)
            tats = {a_s, a_f, b_s, b_f}
        end
        local function tell()
            local s, f = tats[1], tats[2]
            if less(s, f, tats[3], tats[4]) then s, f = tats[3], tats[4] end
            return format('%d %d %d %d', tats[1], tats[2], tats[3], tats[4]), s, f / 1048576
        end
        local old_text, old_s, old_ns = tell()
        local is_kept = changed or (not text and less(now_s, now_ns, old_s, old_ns))
        local fits = false
        for part = 0, 1 do
            local place = first + 7 * part
            if not fits and ARGV[place] == '1' then
                local part_fits, next_s, next_f = take_time(tats[2 * part + 1], tats[2 * part + 2], place + 1)
                if part_fits then
                    -- The part that does not pay moves up to now, for a time that runs back (core/reserve.h).
                    local other = 3 - 2 * part
                    if less(tats[other], tats[other + 1], now_s, now_f) then
                        tats[other], tats[other + 1] = now_s, now_f
                    end
                    fits, tats[2 * part + 1], tats[2 * part + 2] = true, next_s, next_f
                end
            end
        end
        local next_text, next_s, next_ns = tell()
        return fits, next_text, next_s, next_ns, is_kept and old_text, old_s, old_ns
    end

    -- How many of the interval's points are still to come; see core/interval.h.
    local function points_to_come(full_s, full_ns, p_s, p_ns)
        if not less(now_s, now_ns, full_s, full_ns) then return 0 end
        local s, ns = full_s - now_s, full_ns - now_ns - 1
        if ns < 0 then s, ns = s - 1, ns + 1000000000 end
        return (divide(s, ns, p_s, p_ns)) + 1
    end

    function algorithms.interval(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local amount, burst = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
        local cost, start_out = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
        at = at + 6
        local full_s, full_ns, points, out = now_s, now_ns, 0, 0
        local old_text, old_s, old_ns
        if text then
            local spare
            full_s, full_ns, spare = numbers(text, '^(%d+) (%d+) (%d+) %D')
            if not full_s then return nil end
            -- One that owes more than it holds (a block, say) has no room, and may have more points than can be told.
            local most_s, most_ns = times(floor(burst / amount) + 2, p_s, p_ns)
            most_s, most_ns = add(now_s, now_ns, most_s, most_ns, 1000000000)
            if less(most_s, most_ns, full_s, full_ns) then
                return false, '', 0, 0, changed and numbers_of(text), full_s, full_ns
            end
            old_text, old_s, old_ns = changed and numbers_of(text), full_s, full_ns
            points = points_to_come(full_s, full_ns, p_s, p_ns)
            if points > 0 then out = points * amount - spare else full_s, full_ns = now_s, now_ns end
        else
            out = start_out
        end
        local function tell(tokens_out)
            local needed = tokens_out == 0 and 0 or floor((tokens_out - 1) / amount) + 1
            local s, ns = times(needed - points, p_s, p_ns)
            s, ns = add(full_s, full_ns, s, ns, 1000000000)
            return format('%d %d %d', s, ns, needed * amount - tokens_out), s, ns
        end
        if not text and out > 0 then old_text, old_s, old_ns = tell(out) end
        local next_text, next_s, next_ns = tell(out + cost)
        return out + cost <= burst, next_text, next_s, next_ns, old_text, old_s, old_ns
    end

    function algorithms.fixed(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local tokens, cost, count = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
        at = at + 5
        local end_s, end_ns = window_end(p_s, p_ns)
        local kept = not text and count > 0 and format('%d %d %d', end_s, end_ns, count)
        local kept_s, kept_ns = end_s, end_ns
        if text then
            local old_s, old_ns, old_count = numbers(text, '^(%d+) (%d+) (%d+) %D')
            if not old_s then return nil end
            kept, kept_s, kept_ns = changed and numbers_of(text), old_s, old_ns
            count = 0
            if old_count > 0 and not less(old_s, old_ns, end_s, end_ns) then
                end_s, end_ns, count = old_s, old_ns, old_count
            end
        end
        return count + cost <= tokens, format('%d %d %d', end_s, end_ns, count + cost), end_s, end_ns,
            kept, kept_s, kept_ns
    end

    function algorithms.sliding(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local tokens, cost, current = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
        at = at + 5
        local previous = 0
        local end_s, end_ns = window_end(p_s, p_ns)
        local kept = not text and current > 0 and format('%d %d %d 0', end_s, end_ns, current)
        local kept_s, kept_ns = end_s, end_ns
        if text then
            local old_s, old_ns, old_current, old_previous = numbers(text, '^(%d+) (%d+) (%d+) (%d+) %D')
            if not old_s then return nil end
            kept, kept_s, kept_ns = changed and numbers_of(text), old_s, old_ns
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
        kept_s, kept_ns = add(kept_s, kept_ns, p_s, p_ns, 1000000000)
        return fits, format('%d %d %d %d', end_s, end_ns, current + cost, previous), full_s, full_ns,
            kept, kept_s, kept_ns
    end

    -- Runs of tokens that come back together, earliest first (runs.h). Those that are back are of no use any more, but
    -- for a now that runs back.
    function algorithms.log(text, changed)
        local p_s, p_ns = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local tokens, cost, start = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
        at = at + 5
        local back_s, back_ns = add(now_s, now_ns, p_s, p_ns, 1000000000)
        local kept = not text and start > 0 and format('%d %d %d', back_s, back_ns, start)
        local kept_s, kept_ns = back_s, back_ns
        if kept and start < tokens and ARGV[1] ~= '' then -- there since now: none for a now that runs back
            kept = format('%d %d %d ', now_s, now_ns, tokens - start) .. kept
        end
        local runs, total, out, first = {}, 0, 0
        if text or kept then
            local all = text and numbers_of(text) or kept
            if not all then return nil end
            for s, ns, count in string.gmatch(all .. ' ', '(%d+) (%d+) (%d+) ') do
                s, ns = moment(s, ns, 1000000000)
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
            if changed then kept, kept_s, kept_ns = all, last[1], last[2] end
            if not less(last[1], last[2], back_s, back_ns) then
                back_s, back_ns = last[1], last[2]
            end
        end
        if out + cost > tokens then return false, '', 0, 0, kept, kept_s, kept_ns end
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
        return true, table.concat(parts, ' '), back_s, back_ns, kept, kept_s, kept_ns
    end

    return algorithms
end

-- Writes a bucket that is full at that time, to be forgotten when it is and `keep` ms more.
local function write(key, text, shape, full_s, full_ns, keep, hold)
    if hold then
        text = format('%s h%d %d', text, hold[2], hold[3])
        if less(full_s, full_ns, hold[2], hold[3]) then full_s, full_ns = hold[2], hold[3] end
    end
    local ms = (full_s - now_s) * 1000 + floor((full_ns - now_ns) / 1000000) + EXTRA_MS + keep
    if ms >= EXTRA_MS or ARGV[1] ~= '' then -- a now that is told may run back
        redis.call('SET', key, text .. shape .. (hold and '!' or ''), 'PX', format('%d', math.max(ms, EXTRA_MS)))
    else
        redis.call('DEL', key)
    end
end

-- What each would be, if it fits; then those that are to be written.
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
        algorithms = algorithms or make_others()
        decide = algorithms[algorithm]
    end
    local hold = holds and holds[i]
    local fits, text, full_s, full_ns, kept, kept_s, kept_ns =
        decide(hold and hold[1] or answer[i + 3], changed, algorithm == 'gcra+')
    if fits == nil then
        return redis.error_reply('RATION the bucket ' .. KEYS[i] .. ' holds something else: ' .. answer[i + 3])
    end
    if hold and not less(now_s, now_ns, hold[2], hold[3]) then hold = nil end
    fits = is_free or (fits and not is_never and (is_shadow or not hold))
    if not fits and not is_shadow then taken = 0 end
    if is_free or not fits then text = nil end
    if is_free and not changed then kept = nil end
    plans[i] = {keep, is_shadow, text, full_s, full_ns, kept, kept_s, kept_ns, hold}
end
answer[3] = taken
for i = 1, takes and #KEYS or 0 do
    local keep, is_shadow, text, full_s, full_ns, kept, kept_s, kept_ns, hold = unpack(plans[i], 1, 9)
    if text and (is_shadow or taken == 1) then
        write(KEYS[i], text, ARGV[3 + i], full_s, full_ns, keep, hold)
    elseif kept then
        write(KEYS[i], kept, ARGV[3 + i], kept_s, kept_ns, keep, hold)
    end
end
return answer
