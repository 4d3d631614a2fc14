import { HOLDER_SHARE, MOST_HOLDERS, WIDTH } from './lending.ts'

/** The twin of lending.ts: same names, same order; change both or neither. `e` is the entry of a key, `op` the message. */
export const lendingLua = `
local function outOf(loans)
  local out = 0
  for i = 3, #loans, ${WIDTH} do out = out + loans[i] end
  return out
end

local function splice(loans, i)
  for _ = 1, ${WIDTH} do table.remove(loans, i) end
end

local function firstOver(loans)
  local first
  for i = 1, #loans, ${WIDTH} do
    if loans[i + 3] <= now and (not first or loans[i + 3] < loans[first + 3]) then first = i end
  end
  return first
end

-- By the time that the entry's windows are told by.
function lapse(e)
  local loans, hold = e.loans, e.m.hold
  local out = outOf(loans)
  local i = firstOver(loans)
  while i do
    if hold then hold(e.s, loans[i + 3], out) end
    out = out - loans[i + 2]
    splice(loans, i)
    i = firstOver(loans)
  end
  if out > 0 and hold then hold(e.s, now, out) end
  if not loans[1] then e.loans = nil end
end

-- Until when a key has to be kept for those who were lent some of it.
local function lentUntil(e)
  local last = 0
  for i = 4, #e.loans, ${WIDTH} do last = max(last, e.loans[i]) end
  return e.m.backBy and e.m.backBy(last, outOf(e.loans)) or last
end

local function lend(op)
  local e, m, ask = op.e, op.m, op.ask
  local loans = e.loans or {}
  local i, us = nil, now + e.shift
  for j = 1, #loans, ${WIDTH} do
    if loans[j] == ask.holder then i = j end
  end
  local out = outOf(loans)
  local known = i and loans[i + 2] or 0
  local kept = min(ask.held, known)
  if i and ask.seq <= loans[i + 1] then
    op.units, op.kept, op.life = -1, kept, 0
    return
  end
  local back = min(ask.give, known - kept)
  if back > 0 then m.takeBack(e, us, back) end
  out = out + kept - known
  if not i and op.cost > 0 and #loans < ${MOST_HOLDERS * WIDTH} then
    i = #loans + 1
    loans[i], loans[i + 1], loans[i + 2], loans[i + 3] = ask.holder, 0, 0, 0
  end
  local life = min(ask.life, m.lentUntil(e, us) - us)
  local want = ceil(op.cost * min(1, life * 4 / (ask.life * 3)))
  local most = min(want, ask.most - out, floor(ask.most * ${WIDTH} / #loans) - kept)
  local units = 0
  if i and most >= 1 and fits(op, 1) then
    units = mostThatFit(op, most)
    op.charged, op.bookedRef, op.bookedPart = true, m.book(e, us, units)
  end
  if i and kept + units == 0 and op.cost == 0 then
    splice(loans, i)
  elseif i then
    loans[i + 1], loans[i + 2], loans[i + 3] = ask.seq, kept + units, now + life
  end
  e.loans = loans[1] and loans or nil
  op.units, op.kept, op.life = units, kept, floor(life * ${HOLDER_SHARE})
  touch(e)
end
`
