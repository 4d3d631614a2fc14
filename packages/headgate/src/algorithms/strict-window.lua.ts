/** The twin of strict-window.ts. State: [latest slice, one count per slice, slice n at n mod 11]. */
export const strictWindowLua = `
local function strictWindow(window, limit)
  local m = { words = 12 }
  local slice = window / 10

  local function ring(n)
    return 2 + n - floor(n / 11) * 11
  end

  local function sliceOf(s, now)
    return max(floor(now / slice), s[1])
  end

  local function total(s, at)
    local latest = s[1]
    if at - latest >= 11 then return 0 end
    local sum = 0
    for i = 2, 12 do sum = sum + s[i] end
    for n = latest - 10, at - 11 do
      if n >= 0 then sum = sum - s[ring(n)] end
    end
    return sum
  end

  function m.fits(e, now, cost)
    if cost > limit then return false end
    return cost == 0 or total(e.s, sliceOf(e.s, now)) + cost <= limit
  end

  function m.book(e, now, cost)
    local s = e.s
    local at = sliceOf(s, now)
    for back = 0, min(at - s[1], 11) - 1 do s[ring(at - back)] = 0 end
    s[1] = at
    s[ring(at)] = s[ring(at)] + min(cost, MOST_COUNTED - total(s, at))
    return at, 0
  end

  function m.giveBack(e, now, cost, ref)
    local s = e.s
    if ref <= s[1] - 11 then return end
    s[ring(ref)] = max(0, s[ring(ref)] - cost)
  end

  function m.lentUntil(e, now)
    return (sliceOf(e.s, now) + 1) * slice
  end

  function m.takeBack(e, now, units)
    local at = ring(e.s[1])
    e.s[at] = max(0, e.s[at] - units)
  end

  function m.used(s, now)
    return total(s, sliceOf(s, now))
  end

  function m.idle(s)
    for n = s[1], s[1] - 10, -1 do
      if n >= 0 and s[ring(n)] > 0 then return (n + 11) * slice end
    end
    return 0
  end

  return m
end
`
