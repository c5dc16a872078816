-- What a line remembers: callers' ids that count once, and permits that were refunded. Beside line.rs.

parts.memory = function()
  local memory = {}

  local CALL_IDS_MAX, REFUNDS_MAX = 1024, 1024

  -- Callers' ids, none if there are none.
  function memory.calls(line)
    local extra = line.extra
    return extra and extra.calls and unpack_text(extra.calls) or {}
  end

  local function keep_calls(line, calls)
    local extra, expire = engine.change.extra(line), nil
    for _, call in ipairs(calls) do expire = max(expire or 0, call[8]) end
    extra.calls, extra.calls_expire = expire and pack(calls), expire
  end

  -- The take that was granted under this id, if it still counts.
  function memory.call(calls, id, now)
    for _, call in ipairs(calls) do
      if call[1] == id and call[8] > now then return call end
    end
  end

  -- Whether one more id can be remembered.
  function memory.has_room_for_call(calls, now)
    if #calls < CALL_IDS_MAX then return true end
    for _, call in ipairs(calls) do
      if call[8] <= now then return true end
    end
    return false
  end

  function memory.remember_call(line, call, now)
    local kept = {}
    for _, known in ipairs(memory.calls(line)) do
      if known[8] > now then kept[#kept + 1] = known end
    end
    kept[#kept + 1] = call
    keep_calls(line, kept)
  end

  -- An id whose permit was given back takes again: what it was granted is no longer its.
  function memory.forget_call(line, permit)
    if not (line.extra and line.extra.calls) then return end
    local kept = {}
    for _, call in ipairs(memory.calls(line)) do
      if call[3] ~= permit then kept[#kept + 1] = call end
    end
    keep_calls(line, kept)
    engine.change.drop_empty_extra(line)
  end

  -- Remembers that a permit was refunded: "first"; else "repeated" or "full", and nothing has changed.
  function memory.remember_refund(line, permit, expires, now)
    local extra = line.extra
    local live, last = {}, expires
    local known = extra and extra.refunds and unpack_text(extra.refunds) or {}
    for i = 1, #known, 2 do
      if known[i + 1] > now then
        if known[i] == permit then return "repeated" end
        live[#live + 1] = known[i]
        live[#live + 1] = known[i + 1]
        last = max(last, known[i + 1])
      end
    end
    if #live >= 2 * REFUNDS_MAX then return "full" end
    live[#live + 1] = permit
    live[#live + 1] = expires
    extra = engine.change.extra(line)
    extra.refunds, extra.refunds_expire = pack(live), last
    return "first"
  end
  return memory
end
