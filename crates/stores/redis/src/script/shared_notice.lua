-- Until when subjects may share accounts, in milliseconds of the server's clock: KEYS[1] keeps it, and lives as long. It is
-- moved on if ARGV[1] milliseconds from now are later. Answers how many are left.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = tonumber(redis.call('MGET', KEYS[1])[1] or 0)
local wanted = tonumber(ARGV[1])
if wanted > 0 and now + wanted > known then
  known = now + wanted
  redis.call('SET', KEYS[1], string.format('%.0f', known), 'PX', wanted)
end
return math.max(0, known - now)
