--[[ A bucket replaced, if it is as it was. For what is done to buckets by hand.

KEYS   the bucket
ARGV   its text as it was ('': none), what it is to be ('': none), and ms until it may be forgotten

Answer: 1, or 0 if it is another by now.
]]
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
