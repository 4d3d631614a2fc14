/** The twin of gcra.ts. State: [idle at, whole us] and, if down > 1, [the rest of it, in 1/down us]. */
export const gcraLua = `
local function gcra(up, down, limit, leaky)
  local m = { words = down == 1 and 1 or 2, limit = limit, span = down == 1 and spanOf(up) }
  local unit = floor(up / down)
  local unitPart = up - unit * down

  local function span(units)
    if unitPart == 0 then return units * unit, 0 end
    local whole, part = muldiv(unitPart, units, down)
    return units * unit + whole, part
  end

  local tolerance, tolerancePart = span(limit)

  local function compare(us, part, otherUs, otherPart)
    local parts = part - otherPart
    local carry = floor(parts / down)
    local whole = us - otherUs + carry
    return whole ~= 0 and whole or parts - carry * down
  end

  local function put(s, us, part)
    local carry = floor(part / down)
    s[1] = us + carry
    if down > 1 then s[2] = part - carry * down end
  end

  local function sum(late, offset)
    local total = 0
    for i = offset, #late, 4 do total = total + late[i] end
    return total
  end

  function m.fits(e, now, cost)
    if cost > limit then return false end
    return cost == 0 or m.wait(e, now, cost) <= 0
  end

  -- Of a cost that fits one day: how long until then, 0 or less if now.
  function m.wait(e, now, cost)
    local s = e.s
    local debt = s[1] - now
    local us, part = span(cost)
    if down > 1 then us = us + ceil((part + (debt < 0 and 0 or s[2]) - tolerancePart) / down) end
    return (debt > 0 and debt or 0) + us - tolerance
  end

  function m.same(e, now, at, lent)
    local s, held = e.s, lent > 0 and span(lent) + (down > 1 and 2 or 0) or 0
    return s[1] + ((s[2] or 0) > 0 and 1 or 0) >= at + held and at - now + tolerance < LONGEST_US
  end

  if leaky then
    function m.stays(e, now, ref, refPart)
      local s, late = e.s, e.late or {}
      local idle, idlePart = s[1], s[2] or 0
      if compare(idle - now, idlePart, tolerance, tolerancePart) <= 0 then return false end
      return compare(idle + sum(late, 1), idlePart + sum(late, 2), ref, refPart) ~= 0
    end
  end

  function m.book(e, now, cost)
    local s = e.s
    local idle = s[1]
    local us, part = span(cost)
    us = us + (idle > now and idle or now)
    if down == 1 then
      s[1] = us < now + LONGEST_US and us or now + LONGEST_US
    else
      put(s, us, part + (idle < now and 0 or s[2]))
      if s[1] > now + LONGEST_US then put(s, now + LONGEST_US, 0) end
    end
    local ref, refPart = s[1], s[2] or 0
    if e.late then
      ref = ref + sum(e.late, 1)
      refPart = refPart + sum(e.late, 2)
      e.lateUntil = max(e.lateUntil, ref + refPart / down + 1)
    end
    return ref, refPart
  end

  -- Counts two neighbours as one, at the place of the first, where the fewest notice.
  local function joinTwo(late, now)
    local first, least, moved = 1, HUGE, 0
    for i = 1, #late - 4, 4 do
      moved = moved + late[i]
      local harm = late[i + 4] * max(0, late[i + 6] - max(late[i + 2], now + moved))
      if harm <= least then first, least = i, harm end
    end
    late[first] = late[first] + late[first + 4]
    late[first + 1] = late[first + 1] + late[first + 5]
    for _ = 1, 4 do table.remove(late, first + 4) end
  end

  local function moveUp(e, late, now, idle, us, part, ref, refPart)
    if #late == 128 then joinTwo(late, now) end
    local at = #late
    while at > 0 and compare(late[at - 1], late[at], ref, refPart) > 0 do at = at - 4 end
    for i, number in ipairs({ us, part, ref, refPart }) do table.insert(late, at + i, number) end
    e.late = late
    e.lateUntil = idle + sum(late, 1) + sum(late, 2) + 1
  end

  function m.giveBack(e, now, cost, ref, refPart)
    local s, late = e.s, e.late or {}
    local idle, idlePart = s[1], s[2] or 0
    local leftUs, leftPart = ref - now, refPart
    for i = 1, #late, 4 do
      if compare(late[i + 2], late[i + 3], ref, refPart) < 0 then
        leftUs = leftUs - late[i]
        leftPart = leftPart - late[i + 1]
      end
    end
    local us, part = span(cost)
    if compare(us, part, leftUs, leftPart) > 0 then us, part = leftUs, leftPart end
    if compare(us, part, 0, 0) <= 0 then return end
    local isLast = compare(idle + sum(late, 1), idlePart + sum(late, 2), ref, refPart) == 0
    put(s, idle - us, idlePart - part)
    if not isLast then moveUp(e, late, now, idle, us, part, ref, refPart) end
  end

  function m.lentUntil() return HUGE end

  function m.hold(s, now, units)
    local us, part = span(units)
    us = us + now
    if compare(us, part, s[1], s[2] or 0) > 0 then put(s, us, part) end
  end

  function m.takeBack(e, now, units)
    local s = e.s
    local idle, idlePart = s[1], s[2] or 0
    local us, part = span(units)
    put(s, idle - us, idlePart - part)
    moveUp(e, e.late or {}, now, idle, us, part, now, 0)
  end

  -- By when what is held has come back, if it is spent at the last moment.
  function m.backBy(now, units)
    return now + span(units) + 1
  end

  function m.used(s, now)
    local debt = s[1] - now
    if debt < 0 then return 0 end
    local whole = floor(down / up)
    local units, rest = muldiv(down - whole * up, debt, up)
    local part = rest + (s[2] or 0)
    local over = floor(part / up)
    return debt * whole + units + over + (part > over * up and 1 or 0)
  end

  m.unit = unit

  function m.back(s, now, otherUnit)
    local us = span(m.used(s, now)) - ((s[2] or 0) > 0 and 1 or 0) - s[1] + now
    return us > 0 and (muldiv(us, otherUnit, unit + 1)) or 0
  end

  function m.moveUp(s, us)
    s[1] = s[1] - us
  end

  function m.idle(s)
    return s[1] + m.words - 1
  end

  return m
end
`
