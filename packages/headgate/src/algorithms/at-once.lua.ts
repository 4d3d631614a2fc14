/**
 * The twin of at-once.ts. Slots are a sorted set by when they come back; what else is to be known of the key is in it too, with
 * scores below 0 and so out of the way: '#total' units, '#mean' time a slot was held, '#last' slot, '#latest' instant at which one
 * comes back, '#era', '#block'.
 */
export const atOnceLua = `
local function atOnce(limit, hold)
  local m = { words = 0, slots = true }

  local function note(e, name)
    return -(tonumber(call('ZSCORE', e.key, name)) or 0)
  end

  local function unitsOf(slot)
    return tonumber(string.match(slot, ':(%d+)$'))
  end

  function m.load(e)
    m.clear(e)
    e.wiped = false
    e.total, e.mean, e.last = note(e, '#total'), note(e, '#mean'), note(e, '#last')
    e.era, e.block, e.latest = note(e, '#era'), note(e, '#block'), note(e, '#latest')
    e.noted = e.era + e.block > 0
    if e.latest <= now then e.mean = 0 end
    if e.total > 0 then
      for _, slot in ipairs(call('ZRANGEBYSCORE', e.key, '(0', now)) do
        e.gone[slot] = true
        e.removed[#e.removed + 1] = slot
        e.total = e.total - unitsOf(slot)
      end
    end
  end

  function m.clear(e)
    e.added, e.moved, e.removed, e.gone, e.total, e.mean, e.wiped = {}, {}, {}, {}, 0, 0, true
  end

  -- When the first slot comes back, or the last: of those stored, but for what this call has changed, and of those of this call.
  local function edge(e, command, from, to, better)
    local found
    local offset = 0
    while e.total > 0 and not e.wiped do
      local slot = call(command, e.key, from, to, 'WITHSCORES', 'LIMIT', offset, 1)
      if not slot[1] then break end
      if not e.gone[slot[1]] and not e.moved[slot[1]] then
        found = tonumber(slot[2])
        break
      end
      offset = offset + 1
    end
    for _, backAt in pairs(e.added) do found = found and better(found, backAt) or backAt end
    for _, backAt in pairs(e.moved) do found = found and better(found, backAt) or backAt end
    return found or 0
  end

  local function first(e)
    return edge(e, 'ZRANGEBYSCORE', '(0', '+inf', min)
  end

  local function last(e)
    return edge(e, 'ZREVRANGEBYSCORE', '+inf', '(0', max)
  end

  local function wait(e, now, cost)
    if cost > limit then return -1 end
    local excess = e.total + cost - limit
    if excess <= 0 or cost == 0 then return 0 end
    local back = first(e) - now
    return max(1, min(back, e.mean > 0 and ceil(e.mean * excess / e.total) or back))
  end

  function m.fits(e, now, cost)
    return cost <= limit and (cost == 0 or e.total + cost <= limit)
  end

  function m.book(e, now, cost)
    -- Later than all slots of this key there have been, also of those nobody remembers.
    e.last = max(e.last + 1, now)
    e.added[string.format('%.0f:%.0f', e.last, cost)] = now + hold
    e.latest = max(e.latest, now + hold)
    e.total = e.total + cost
    return e.last, 0
  end

  -- The slot with this number, and when it comes back.
  local function slotOf(e, ref)
    local prefix = string.format('%.0f:', ref)
    for slot, backAt in pairs(e.added) do
      if sub(slot, 1, #prefix) == prefix then return slot, backAt end
    end
    return nil
  end

  function m.find(e, ref, cost)
    local slot, backAt = slotOf(e, ref)
    if slot then return slot, backAt end
    slot = string.format('%.0f:%.0f', ref, cost)
    if e.gone[slot] or e.wiped then return nil end
    return slot, e.moved[slot] or tonumber(call('ZSCORE', e.key, slot))
  end

  function m.giveBack(e, now, cost, ref)
    local slot, backAt = m.find(e, ref, math.abs(cost))
    if not backAt then return end
    local held = max(1, now - (backAt - hold))
    e.mean = e.mean == 0 and held or e.mean + (held - e.mean) / 8
    e.total = e.total - unitsOf(slot)
    if e.added[slot] then
      e.added[slot] = nil
    else
      e.moved[slot] = nil
      e.gone[slot] = true
      e.removed[#e.removed + 1] = slot
    end
  end

  function m.renew(e, now, cost, ref)
    local slot, backAt = m.find(e, ref, cost)
    if not backAt then return end
    if e.added[slot] then e.added[slot] = now + hold else e.moved[slot] = now + hold end
    e.latest = max(e.latest, now + hold)
  end

  function m.idleOf(e)
    return e.latest
  end

  function m.view(e, now, cost, reply, charged, ref)
    local remaining = max(0, limit - e.total)
    local n = #reply
    reply[n + 1] = remaining
    reply[n + 2] = charged and 0 or wait(e, now, cost)
    reply[n + 3] = e.total > 0 and last(e) - now or 0
    reply[n + 4] = remaining < limit and wait(e, now, remaining + 1) or limit == 0 and -1 or 0
    reply[n + 5] = ref
  end

  function m.save(e, ttl)
    if e.wiped then call('DEL', e.key) end
    for from = 1, #e.removed, 1000 do
      call('ZREM', e.key, unpack(e.removed, from, min(from + 999, #e.removed)))
    end
    call('ZADD', e.key, -e.total, '#total', -e.mean, '#mean', -e.last, '#last', -e.latest, '#latest')
    if e.noted or e.era + e.block > 0 then call('ZADD', e.key, -e.era, '#era', -e.block, '#block') end
    for slot, backAt in pairs(e.added) do call('ZADD', e.key, backAt, slot) end
    for slot, backAt in pairs(e.moved) do call('ZADD', e.key, backAt, slot) end
    call('PEXPIRE', e.key, ttl)
  end

  return m
end
`
