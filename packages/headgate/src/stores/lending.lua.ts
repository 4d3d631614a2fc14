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
  if i and most >= 1 then units = mostThatFit(op, most) end
  if units > 0 then op.charged, op.bookedRef, op.bookedPart = true, m.book(e, us, units) end
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

/**
 * As `lend`, of messages that borrow and give nothing back, of limits whose state is one number: nearly all are. Returns what they
 * are told or, if a key has more to it than loans that run, nothing, and has done nothing.
 *
 * @param policyUnit Of the code of an op; what is below it is not about which policy.
 */
export const lendQuicklyLua = (policyUnit: number, charged: number) => `
local function lendQuickly()
  local min, floor = math.min, math.floor
  local heads, ups, limits, a = {}, {}, {}, 5
  for i = 1, tonumber(ARGV[5]) do
    local shape = ARGV[a + 1]
    heads[i], ups[i], limits[i] = char(#shape, 1) .. shape, tonumber(ARGV[a + 3]), tonumber(ARGV[a + 5])
    a = a + 5
  end
  a = a + 1
  local values, reply, changed = call('MGET', unpack(KEYS)), { now }, {}
  for i = 1, #KEYS do
    local policy = floor(ARGV[a + 3] / ${policyUnit})
    local want, holder, seq, held = tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7])
    local life, most = tonumber(ARGV[a + 9]), tonumber(ARGV[a + 10])
    a = a + 10
    local head, up, limit, value = heads[policy], ups[policy], limits[policy], values[i]
    local at, loans, aside = 0, {}, pack('<dddd', 0, 0, 0, 0)
    if value and sub(value, 1, #head) == head then
      at = unpack_('<d', value, #head + 1)
    elseif value then
      local behind
      at, behind = lentIn(value, head, up)
      if not at then return nil end
      aside, loans = sub(behind, 1, 32), { unpack_('<' .. ('d'):rep(#behind / 8 - 5), behind, 41) }
      loans[#loans] = nil
    end
    local n, out, last = #loans, 0, now + life
    local mine = n + 1
    for j = 1, n, ${WIDTH} do
      out = out + loans[j + 2]
      if loans[j] == holder then mine = j elseif loans[j + 3] > last then last = loans[j + 3] end
    end
    if mine == ${MOST_HOLDERS * WIDTH + 1} then return nil end
    local known = loans[mine + 2] or 0
    local kept, units = min(held, known), -1
    if mine > n or seq > loans[mine + 1] then
      out = out + kept - known
      local idle = at > now and at or now
      local share = floor(most * ${WIDTH} / (mine > n and n + ${WIDTH} or n)) - kept
      units = min(want, most - out, share, limit, floor((up * limit - idle + now) / up))
      if units > 0 then at = idle + units * up else units = 0 end
      loans[mine], loans[mine + 1], loans[mine + 2], loans[mine + 3] = holder, seq, kept + units, now + life
      local until_ = last + (out + units) * up + 1
      local ttl = ceil(((at > until_ and at or until_) - now) / 1000) + slack
      local state = pack('<c0d', char(byte(head, 1) + 128) .. sub(head, 2), at) .. aside .. pack('<d', #loans)
      changed[#changed + 1] = { KEYS[i], state .. pack('<' .. ('d'):rep(#loans), unpack(loans)), format('%d', ttl) }
    end
    local r = #reply
    reply[r + 1], reply[r + 2], reply[r + 3] = 0, units > 0 and ${charged} or 0, at
    reply[r + 4], reply[r + 5], reply[r + 6] = units, kept, units < 0 and 0 or floor(life * ${HOLDER_SHARE})
  end
  for _, each in ipairs(changed) do call('SET', each[1], each[2], 'PX', each[3]) end
  return reply
end
`
