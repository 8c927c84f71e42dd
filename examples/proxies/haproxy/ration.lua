-- ration.lua: asks `ration serve` whether a request is allowed.
--
--     global
--         lua-load ration.lua
--     frontend web
--         http-request lua.ration open
--     listen ration
--         bind abns@ration-check
--         http-response set-header ration-answered yes
--         server ration 127.0.0.1:8429
--
-- A denial is passed to the client as ration sent it. What is left of the limits is put into the variables
-- txn.ration_state and txn.ration_policy, for http-response set-header. If ration cannot be reached, the
-- request proceeds, or with "closed" is refused with 503. The section marks responses of ration with a header,
-- which HAProxy's own responses do not have: a 503 of ration is a decision.

-- A section of the configuration and not ration itself: HAProxy's Lua client opens a connection for each
-- request, and tries for three seconds.
local SECTION = "abns@ration-check"

-- ration's --check-secret-file. Only HAProxy's user should be able to read this file.
local SECRET = "CHECK-SECRET"

local TIMEOUT_MS = 500 -- the section's are shorter

-- Headers of the client that are passed to ration, and no others: a client must not be able to choose which
-- path is checked. Limits by header.x-api-key need its name here. A request that has one of them twice, or
-- with _ for - (which some services take for the same header), is refused: ration and the service could
-- read different ones.
local PASSED_TO_RATION = {"x-api-key"}

-- Headers of a denial that are passed to the client.
local PASSED_TO_CLIENT = {"ratelimit", "ratelimit-policy", "retry-after", "content-type", "cache-control",
                          "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}

-- The client's address after those that earlier proxies added; ration believes the trusted ones.
local function forwarded_for(txn, headers)
    local list = {}
    local given = headers["x-forwarded-for"]
    if given then
        for i = 0, #given do
            list[#list + 1] = given[i]
        end
    end
    list[#list + 1] = tostring(txn.f:src())
    return table.concat(list, ", ")
end

local function is_ambiguous(headers)
    local counts = {}
    for name, values in pairs(headers) do
        local folded = name:gsub("_", "-")
        local count = 0
        for _ in pairs(values) do
            count = count + 1
        end
        counts[folded] = (counts[folded] or 0) + (folded == name and count or 2)
    end
    for _, name in ipairs(PASSED_TO_RATION) do
        if (counts[name] or 0) > 1 then
            return true
        end
    end
    return false
end

local function question(txn, headers)
    local asked = {
        ["authorization"] = {"Bearer " .. SECRET},
        ["x-forwarded-method"] = {txn.f:method()},
        ["x-forwarded-uri"] = {txn.f:pathq()},
        ["x-forwarded-for"] = {forwarded_for(txn, headers)},
    }
    if headers["host"] then
        asked["x-forwarded-host"] = {headers["host"][0]}
    end
    for _, name in ipairs(PASSED_TO_RATION) do
        if headers[name] then
            asked[name] = {headers[name][0]}
        end
    end
    return asked
end

local function first(headers, name)
    return headers and headers[name] and headers[name][0]
end

local function refuse(txn, status, headers, body)
    local reply = txn:reply()
    reply:set_status(status)
    for _, name in ipairs(PASSED_TO_CLIENT) do
        local value = first(headers, name)
        if value then
            reply:add_header(name, value)
        end
    end
    reply:set_body(body or "")
    txn:done(reply)
end

-- Whether the response is ration's, whatever it says. Without the header it is HAProxy's: ration is unreachable.
local function is_answered(answer)
    return answer ~= nil and answer.status ~= nil and first(answer.headers, "ration-answered") ~= nil
end

-- when_unreachable: "closed", or "open"
local function ask(txn, when_unreachable)
    local headers = txn.http:req_get_headers()
    if is_ambiguous(headers) then
        refuse(txn, 400, nil, "")
        return
    end
    local answer = core.httpclient():get({
        url = "http://localhost/v1/check", -- a Host that ration accepts; dst is where it goes
        dst = SECTION,
        headers = question(txn, headers),
        timeout = TIMEOUT_MS,
    })
    if not is_answered(answer) then
        if when_unreachable == "closed" then
            refuse(txn, 503, nil, "")
        end
        return
    end
    if answer.status >= 300 then
        refuse(txn, answer.status, answer.headers, answer.body)
        return
    end
    local state = first(answer.headers, "ratelimit")
    local policy = first(answer.headers, "ratelimit-policy")
    if state and policy then
        txn:set_var("txn.ration_state", state)
        txn:set_var("txn.ration_policy", policy)
    end
end

core.register_action("ration", {"http-req"}, ask, 1)
