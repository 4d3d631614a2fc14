/** The twin of fixed-window.ts. State: [start of the window, count] and, if staggered, [how far time is shifted]. A script has no
 *  calendar: the caller brings the windows around the present, and the third word is then the end of the one in force. */
export const fixedWindowLua = `
local function fixedWindow(starts, window, limit, bounds)
  local staggered = starts == 'staggered'
  local m = { words = (staggered or bounds) and 3 or 2, told = 2, shifted = staggered }

  local function locate(e, now)
    local s = e.s
    local last, count = s[1], s[2]
    if starts == 'first-hit' then
      if count > 0 and now < last + window then return last, last + window, count end
      return now, now + window, 0
    end
    local start, stop
    if not bounds then
      start = floor(now / window) * window
      if last > start then start = last end
      stop = start + window
    elseif now < s[3] then
      start, stop = last, s[3]
    else
      for i = 1, #bounds - 1 do
        if now >= bounds[i] and now < bounds[i + 1] then start, stop = bounds[i], bounds[i + 1] end
      end
    end
    return start, stop, start == last and count or 0
  end

  function m.fits(e, now, cost)
    if cost > limit then return false end
    local _, _, count = locate(e, now)
    return cost == 0 or count + cost <= limit
  end

  function m.same(e, now, at)
    local _, stop, count = locate(e, now)
    return at < stop and (starts ~= 'first-hit' or count > 0)
  end

  function m.book(e, now, cost)
    local start, stop, count = locate(e, now)
    e.s = { start, min(count + cost, MOST_COUNTED), staggered and e.shift or bounds and stop or nil }
    return start, 0
  end

  function m.giveBack(e, now, cost, ref)
    if e.s[1] == ref then e.s[2] = max(0, e.s[2] - cost) end
  end

  function m.lentUntil(e, now)
    local _, stop = locate(e, now)
    return stop
  end

  function m.takeBack(e, now, units)
    e.s[2] = max(0, e.s[2] - units)
  end

  function m.idle(s)
    if s[2] == 0 then return 0 end
    return bounds and s[3] or s[1] + window - (s[3] or 0)
  end

  function m.used(s, now)
    return now < m.idle(s) and s[2] or 0
  end

  return m
end
`
