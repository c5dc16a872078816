-- An account: all meters of one policy for one subject, and the time up to which they are booked. Mirrors the core's
-- account.
--
-- It is {seen, expires, meters, extra, noted} by name; as stored, those packed one after the other. `noted` is nil unless
-- the primary has changed: see recall.lua. `extra` is nil for most accounts; in it nil stands for nothing, and indices of limits begin at 1. The lists that can be long stay
-- packed until they are asked for: `calls` is {id, asked, permit, granted_at, at, good_until, would_deny, expires}
-- for each, and `refunds` {permit, expires, permit, expires, ...}; `calls_expire` and `refunds_expire` are their
-- last ends. `held_until` and `caps` are what a vendor said: see feedback.lua.

parts.account = function()
  local account_of = {}

  -- The account as stored; an expired one is a new one, which is equivalent.
  function account_of.read(text, policy, now)
    if text then
      local seen, expires, meters, extra, noted = unpack_text(text)
      if expires > now then
        return { seen = seen, expires = expires, meters = meters, extra = extra, noted = noted }
      end
    end
    return engine.change.new(policy)
  end

  function account_of.write(account)
    local noted = account.noted
    if noted and noted[3] > account.seen then
      return pack(account.seen, account.expires, account.meters, account.extra, noted)
    end
    return pack(account.seen, account.expires, account.meters, account.extra)
  end

  -- The time of the last booking; the queue is empty unless it lies after now.
  function account_of.frontier(account)
    local extra = account.extra
    return extra and extra.frontier or 0
  end

  -- The end of the vendor's hold.
  function account_of.held_until(account)
    local extra = account.extra
    return extra and extra.held_until or 0
  end

  -- What the meters are as of: the last change, or the last booking if that lies later.
  function account_of.as_of(account)
    local seen, frontier = account.seen, account_of.frontier(account)
    return frontier > seen and frontier or seen
  end

  -- Whether the meters are those of `policy`, in its order.
  function account_of.fits(account, policy)
    local meters, limits = account.meters, policy.limits
    if #meters ~= #limits then return false end
    for i = 1, #limits do
      if meters[i][1] ~= limits[i].identity then return false end
    end
    return true
  end

  -- Notes a debit at `now`: the clock reading, and when the meters will be as good as new.
  function account_of.changed(account, now, meters_expire, policy)
    account.seen = now
    account.expires = max(meters_expire, now)
    if account.extra then
      engine.change.drop_past(account)
      engine.change.note_expiry(account, policy)
    end
  end
  return account_of
end
