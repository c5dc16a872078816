-- What an account remembers: callers' ids that count once, and permits that were refunded. Mirrors line.rs.

parts.memory = function()
  local memory = {}

  local CALL_IDS_MAX, REFUNDS_MAX = 1024, 1024

  -- Callers' ids, none if there are none.
  function memory.calls(account)
    local extra = account.extra
    return extra and extra.calls and unpack_text(extra.calls) or {}
  end

  local function keep_calls(account, calls)
    local extra, expire = engine.change.extra(account), nil
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

  -- In a full server no account grows: a take that is repeated with the id counts again.
  function memory.remember_call(account, call, now)
    if is_full then return end
    local kept = {}
    for _, known in ipairs(memory.calls(account)) do
      if known[8] > now then kept[#kept + 1] = known end
    end
    kept[#kept + 1] = call
    keep_calls(account, kept)
  end

  -- Remembers also what another copy of the account remembers. Answers whether that was more.
  function memory.remember_all(account, copy, now)
    local calls, known, more = memory.calls(account), {}, false
    for _, call in ipairs(calls) do known[call[1]] = true end
    for _, call in ipairs(memory.calls(copy)) do
      if not known[call[1]] and call[8] > now and #calls < CALL_IDS_MAX then
        calls[#calls + 1], more = call, true
      end
    end
    if more then keep_calls(account, calls) end
    local refunds = copy.extra and copy.extra.refunds and unpack_text(copy.extra.refunds) or {}
    for i = 1, #refunds, 2 do
      if refunds[i + 1] > now and memory.remember_refund(account, refunds[i], refunds[i + 1], now) == "first" then
        more = true
      end
    end
    return more
  end

  -- An id whose permit was given back takes again: what it was granted is no longer its.
  function memory.forget_call(account, permit)
    if not (account.extra and account.extra.calls) then return end
    local kept = {}
    for _, call in ipairs(memory.calls(account)) do
      if call[3] ~= permit then kept[#kept + 1] = call end
    end
    keep_calls(account, kept)
    engine.change.drop_empty_extra(account)
  end

  -- Remembers that a permit was refunded: "first"; else "repeated" or "full", and nothing has changed.
  function memory.remember_refund(account, permit, expires, now)
    local extra = account.extra
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
    if #live >= 2 * REFUNDS_MAX or is_full then return "full" end
    live[#live + 1] = permit
    live[#live + 1] = expires
    extra = engine.change.extra(account)
    extra.refunds, extra.refunds_expire = pack(live), last
    return "first"
  end
  return memory
end
