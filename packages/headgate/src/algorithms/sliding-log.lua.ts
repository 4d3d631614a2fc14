/**
 * The twin of sliding-log.ts. The string is the head, six numbers (entries dropped, entries kept, the sum of those dropped, era
 * and until when it matters, end of a block) and the entries, of which only those that are looked at are read: a decision about a long log costs a
 * few short reads. What is booked stays in `added` until it is written.
 */
export const slidingLogLua = `
local function slidingLog(window, limit)
  local m = { words = 6, log = true }

  -- Entry i, from 0: when, and the sum of all units up to and with it.
  local function entry(e, i)
    local known = e.entries[i]
    if known then return known[1], known[2] end
    local offset = m.h + 48 + 16 * (e.dropped + i)
    local at, sum = struct.unpack('<dd', call('GETRANGE', e.key, offset, offset + 15))
    e.entries[i] = { at, sum }
    return at, sum
  end

  -- The bytes of entries as they are in Redis.
  local function stored(e, from, to)
    if to < from then return '' end
    local offset = m.h + 48 + 16 * e.dropped
    return call('GETRANGE', e.key, offset + 16 * from, offset + 16 * to + 15)
  end

  -- Reads all entries from i on at once.
  local function readFrom(e, from)
    local to = e.size - 1
    while to >= from and e.entries[to] do to = to - 1 end
    local raw, unpack_ = stored(e, from, to), struct.unpack
    for i = from, to do
      if not e.entries[i] then
        local at, sum = unpack_('<dd', raw, 16 * (i - from) + 1)
        e.entries[i] = { at, sum }
      end
    end
  end

  local function sumAt(e, i)
    if i < 0 then return e.before end
    local _, sum = entry(e, i)
    return sum
  end

  local function search(size, is)
    local low, high = 0, size
    while low < high do
      local middle = floor((low + high) / 2)
      if is(middle) then high = middle else low = middle + 1 end
    end
    return low
  end

  local function firstLive(e, now)
    if e.size == 0 then return 0 end
    local since = max(now, (entry(e, e.size - 1))) - window
    if (entry(e, 0)) > since then return 0 end
    return search(e.size, function(i) return (entry(e, i)) > since end)
  end

  local function used(e, now)
    return e.size == 0 and 0 or sumAt(e, e.size - 1) - sumAt(e, firstLive(e, now) - 1)
  end

  local function wait(e, now, cost)
    if cost > limit then return -1 end
    if cost == 0 or used(e, now) + cost <= limit then return 0 end
    local leaving = sumAt(e, e.size - 1) + cost - limit
    local i = search(e.size, function(each) return sumAt(e, each) >= leaving end)
    return (entry(e, i)) + window - now
  end

  -- Forgets entries that have left the window; sums start over from what is still counted.
  local function drop(e, now)
    local gone = firstLive(e, now)
    if gone > 0 then
      e.before = sumAt(e, gone - 1)
      e.dropped = e.dropped + gone
      e.size = e.size - gone
      local kept = {}
      for i, each in pairs(e.entries) do
        if i >= gone then kept[i - gone] = each end
      end
      e.entries = kept
    end
    if e.before > MOST_COUNTED or e.size == 0 then
      readFrom(e, 0)
      e.from = e.dropped
      for i = 0, e.size - 1 do
        local at, sum = entry(e, i)
        e.entries[i] = { at, sum - e.before }
      end
      e.before = 0
      e.rewrite = true
    end
  end

  function m.load(e)
    local raw = call('GETRANGE', e.key, 0, m.h + 47)
    m.clear(e)
    if sub(raw, 1, m.h) == m.head then
      e.rewrite = false
      e.from = nil
      e.dropped, e.size, e.before, e.era, e.keepUntil, e.block = struct.unpack('<dddddd', raw, m.h + 1)
    elseif raw ~= '' then
      return call('GET', e.key)
    end
  end

  function m.clear(e)
    e.entries, e.dropped, e.size, e.before, e.from, e.rewrite = {}, 0, 0, 0, 0, true
  end

  m.usedOf = used

  function m.fits(e, now, cost)
    return wait(e, now, cost) == 0
  end

  function m.book(e, now, cost)
    drop(e, now)
    local last = e.size > 0 and (entry(e, e.size - 1)) or -1
    local units = min(cost, MOST_COUNTED - used(e, now))
    local at = max(now, last)
    local sum = sumAt(e, e.size - 1) + units
    if at > last then e.size = e.size + 1 end
    e.entries[e.size - 1] = { at, sum }
    e.from = min(e.from or e.size - 1 + e.dropped, e.size - 1 + e.dropped)
    return at, 0
  end

  function m.giveBack(e, now, cost, ref)
    local live = firstLive(e, now)
    local index = search(e.size, function(i) return (entry(e, i)) >= ref end)
    if index < live or index == e.size or (entry(e, index)) ~= ref then return end
    local booked = sumAt(e, index) - sumAt(e, index - 1)
    local units = min(cost, booked)
    readFrom(e, index)
    for i = index, e.size - 1 do
      local at, sum = entry(e, i)
      e.entries[i] = { at, sum - units }
    end
    if units == booked then
      for i = index, e.size - 2 do e.entries[i] = e.entries[i + 1] end
      e.entries[e.size - 1] = nil
      e.size = e.size - 1
    end
    e.from = min(e.from or index + e.dropped, index + e.dropped)
  end

  function m.idleOf(e)
    return e.size == 0 and 0 or (entry(e, e.size - 1)) + window
  end

  function m.view(e, now, cost, reply, charged, ref)
    local remaining = max(0, limit - used(e, now))
    local grow = remaining < limit and wait(e, now, remaining + 1) or limit == 0 and -1 or 0
    local n = #reply
    reply[n + 1] = remaining
    reply[n + 2] = charged and 0 or wait(e, now, cost)
    reply[n + 3] = max(0, m.idleOf(e) - now)
    reply[n + 4] = grow
    reply[n + 5] = ref
  end

  -- What has not changed is copied as it is.
  local function packed(e, from)
    local changed = max(from, min(e.size, e.from and e.from - e.dropped or e.size))
    local parts = { stored(e, from, changed - 1) }
    for i = changed, e.size - 1 do parts[#parts + 1] = struct.pack('<dd', entry(e, i)) end
    return table.concat(parts)
  end

  function m.save(e, ttl)
    -- Written anew once more than half of it is of no use, so that writing is cheap on average.
    if e.rewrite or e.dropped > e.size + 16 then
      if e.size > 0 then readFrom(e, 0) end
      local entries = packed(e, 0)
      local head = struct.pack('<dddddd', 0, e.size, e.before, e.era, e.keepUntil, e.block)
      call('SET', e.key, m.head .. head .. entries, 'PX', ttl)
      return
    end
    call('SETRANGE', e.key, m.h, struct.pack('<dddddd', e.dropped, e.size, e.before, e.era, e.keepUntil, e.block))
    if e.from and e.from - e.dropped < e.size then
      local from = max(e.from - e.dropped, 0)
      call('SETRANGE', e.key, m.h + 48 + 16 * (e.dropped + from), packed(e, from))
    end
    call('PEXPIRE', e.key, ttl)
  end

  return m
end
`
