--[[ Replaces a bucket, if it is unchanged. Used for changes by an administrator.

KEYS   the bucket
ARGV   its text as it was ('': none), its new text ('': none), and its expiry in ms

Reply: 1, or 0 if the bucket has changed.
]]
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
