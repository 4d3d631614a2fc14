/** The twin of sliding-window.ts. State: [start of the current window, previous count, current count] and, if
 *  staggered, [how far time is shifted]. */
export const slidingWindowLua = `
local function slidingWindow(align, window, limit)
  local staggered = align == 'staggered'
  local m = { words = staggered and 4 or 3, told = 3, shifted = staggered }

  local function locate(s, now)
    local last = s[1]
    local start = floor(now / window) * window
    if start <= last then return last, start < last and 0 or now - last, s[2], s[3] end
    return start, now - start, start - last == window and s[3] or 0, 0
  end

  local function fading(previous, elapsed)
    if previous == 0 or elapsed == 0 then return previous end
    local whole, rest = muldiv(window - elapsed, previous, window)
    return rest > 0 and whole + 1 or whole
  end

  function m.fits(e, now, cost)
    if cost > limit then return false end
    local _, elapsed, previous, current = locate(e.s, now)
    return cost == 0 or current + cost + fading(previous, elapsed) <= limit
  end

  function m.book(e, now, cost)
    local start, _, previous, current = locate(e.s, now)
    e.s = { start, previous, min(current + cost, MOST_COUNTED), staggered and e.shift or nil }
    return start, 0
  end

  function m.giveBack(e, now, cost, ref)
    local start, _, previous, current = locate(e.s, now)
    if ref == start then
      current = max(0, current - cost)
    elseif ref == start - window then
      previous = max(0, previous - cost)
    else
      return
    end
    e.s = { start, previous, current, staggered and e.shift or nil }
  end

  function m.lentUntil(e, now)
    return locate(e.s, now) + window
  end

  function m.takeBack(e, now, units)
    e.s[3] = max(0, e.s[3] - units)
  end

  function m.used(s, now)
    local _, elapsed, previous, current = locate(s, now + (s[4] or 0))
    return current + fading(previous, elapsed)
  end

  function m.idle(s)
    local windows = s[3] > 0 and 2 or s[2] > 0 and 1 or 0
    return windows == 0 and 0 or s[1] + windows * window - (s[4] or 0)
  end

  return m
end
`
