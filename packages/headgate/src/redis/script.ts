import { atOnceLua } from '../algorithms/at-once.lua.ts'
import { fixedWindowLua } from '../algorithms/fixed-window.lua.ts'
import { gcraLua } from '../algorithms/gcra.lua.ts'
import { slidingLogLua } from '../algorithms/sliding-log.lua.ts'
import { slidingWindowLua } from '../algorithms/sliding-window.lua.ts'
import { strictWindowLua } from '../algorithms/strict-window.lua.ts'
import { wholeLua } from '../algorithms/whole.lua.ts'
import { lendingLua, lendQuicklyLua } from '../stores/lending.lua.ts'
import { WIDTH } from '../stores/lending.ts'

/** In place of a reply, and like no number in one: the call came after its deadline, or with a calendar open at another page. */
export const LATE = -9_000_000_000_000_001
export const OTHER_PAGE = -9_000_000_000_000_002
/** Before the reply to a quick call that was not answered the quick way. */
export const NOT_QUICK = -9_000_000_000_000_003
/** In a quick reply in place of a take that was not: what came of it stands behind all others. */
export const APART = -9_000_000_000_000_004
/** In the byte of a quick take, which is below 128 as texts are sent: whether its cost is not 1. */
export const COST = 64
/** What the numbers of a request and a reply mean, on both sides of the wire. */
export const verbs = { take: 0, peek: 1, settle: 2, release: 3, block: 4, reset: 5, renew: 6, lease: 7 } as const
/** Beside the verb in the code of an op; the rest of it is which policy. */
export const OBSERVE = 8
export const FIXED = 16
export const WITHIN = 32
export const POLICY = 64
/** In the code of a group; the rest of it is how many ops. */
export const UP_TO = 1
export const ID = 2
export const CORRECT = 4
export const FORGET = 8
export const OPS = 16
/** In the code of an op's reply: whether it was charged, or is a peek that fits, and what follows. */
export const CHARGED = 1
export const ASIDE = 2
export const REF = 4
export const FITS = 8

/**
 * One script for everything. It reads the clock once, decides all groups in order on copies of the states, and only then
 * writes, each key once: an error before that leaves no trace, and there is none after it.
 *
 * A state is one string: how long its shape is (128 more if something stands behind the numbers), how many numbers, the shape,
 * the numbers. Behind them, where a key needs it: its era and until when that matters, until when it is blocked, until when
 * what was given back out of turn counts, how many numbers are about loans, these, and what was given back.
 *
 * The reply is numbers only. For most policies they are the state after the decision, from which the caller works out what is
 * left and how long to wait with the same code as the store in memory.
 */
export const script = `
local KEYS, ARGV, tonumber, call = KEYS, ARGV, tonumber, redis.call
local byte, char, sub, ceil, fmod = string.byte, string.char, string.sub, math.ceil, math.fmod
-- A number handed to Redis is printed with 17 digits, which takes as long as a GET: whole ones are printed here.
local format, pack, unpack_ = string.format, struct.pack, struct.unpack
local now, expires, slack = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local quick = ARGV[4] == 'quick' or ARGV[4] == 'again'
-- Time that is told is not that of Redis: keys then live for so long, and not until then.
local told, expire, since = true, 'PEXPIRE', now
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  told, expire, since = false, 'PEXPIREAT', 0
end
-- Whoever asked has long had another answer: a call that waited in a queue, or was sent again, must charge nobody.
if expires > 0 and now > expires then return { now, ${LATE} } end

-- A state that is one number is kept until the end of the span that it falls into: 16 units, but at least a second and at most a
-- minute. Who moves it within its span need not say how long the key lives, which would be most of the work.
local function spanOf(up)
  return up < 62500 and 1000000 or up > 3750000 and 60000000 or 16 * up
end

local function startOf(us, span)
  return us - fmod(us, span)
end

local function keptUntil(us, span)
  return told and us or startOf(us, span) + span
end

-- The number of a state that has more to it than that, if this is nothing but units that are lent and whose time is not over; what
-- stands behind it, and until when it has to be kept for them. As \`lapse\` and \`lentUntil\` do.
local function lentIn(value, head, up)
  local h = #head
  if byte(value, 1) ~= byte(head, 1) + 128 or sub(value, 2, h) ~= sub(head, 2) then return nil end
  local at, era, _, block, late, n = unpack_('<dddddd', value, h + 1)
  local stop = h + 48 + 8 * n
  if era > 0 or block > now or n == 0 or late > now and #value > stop then return nil end
  local out, last = 0, 0
  for i = h + 49, stop, ${8 * WIDTH} do
    local units, untilUs = unpack_('<dd', value, i + 16)
    if untilUs <= now then return nil end
    out = out + units
    if untilUs > last then last = untilUs end
  end
  local held = now + out * up
  return at > held and at or held, sub(value, h + 9, stop), last + out * up + 1
end

-- What of a quick call is left for below, what was replied to the rest, and what has yet to be written of that.
local apart, replied, write

-- What nearly all calls are: takes of limits whose state is one number. The same as below, without its tables and functions.
if quick and #KEYS == 1 then
  local key, shape, up, limit = KEYS[1], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
  local cost = tonumber(ARGV[11]) or 1
  local head, value = char(#shape, 1) .. shape, call('GET', key)
  local at, lent, untilUs = 0, '', 0
  if value then
    if sub(value, 1, #head) == head then
      at = unpack_('<d', value, #head + 1)
    else
      at, lent, untilUs = lentIn(value, head, up)
    end
  end
  if at then
    local us = (at > now and at or now) + cost * up
    if us - now > up * limit or cost > limit then return { now, -1 - at } end
    local span = spanOf(up)
    if not told and lent == '' and at >= startOf(us, span) then
      call('SETRANGE', key, format('%d', #head), pack('<d', us))
      return { now, us }
    end
    if untilUs > 0 then head = char(#shape + 128) .. sub(head, 2) end
    local kept = keptUntil(us, span)
    local ttl = ceil(((kept > untilUs and kept or untilUs) - now) / 1000)
    call('SET', key, pack('<c0d', head, us) .. lent, 'PX', format('%d', ttl + slack))
    return { now, us }
  end
elseif quick then
  local heads, ups, tolerances, limits, spans, offsets = {}, {}, {}, {}, {}, {}
  local a, again = 5, ARGV[4] == 'again'
  for i = 1, tonumber(ARGV[5]) do
    local shape, up, limit = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    a = a + 3
    heads[i] = char(#shape, 1) .. shape
    ups[i], tolerances[i], limits[i] = up, up * limit, limit
    spans[i], offsets[i] = spanOf(up), format('%d', #heads[i])
  end
  -- A byte for each group: how many ops, none if all have one. A byte for each op: its policy, ${COST} more if a cost follows.
  local sizes, codes = { byte(ARGV[a + 1], 1, -1) }, { byte(ARGV[a + 2], 1, -1) }
  a = a + 2
  local values = call('MGET', unpack(KEYS))
  -- Made with a place for each key: a table that grows is copied again and again.
  local idle, reply, before = { unpack(values) }, { now, unpack(values) }, { unpack(values) }
  local costs, firsts, same, lent, lentUntil = {}, {}, {}, {}, {}
  -- Keys whose state has more to it.
  local slow, some = {}, false
  for i = 1, #codes do
    local policy = codes[i]
    if policy > ${COST} then
      a = a + 1
      policy = policy - ${COST}
      codes[i], costs[i] = policy, tonumber(ARGV[a])
    end
    -- A key that comes again is found by where it came first.
    local first = again and firsts[KEYS[i]]
    if first then
      same[i] = first
      if codes[first] ~= policy then slow[first], some = true, true end
    else
      if again then firsts[KEYS[i]] = i end
      local value, head = values[i], heads[policy]
      before[i] = 0
      if not value then
        idle[i] = 0
      elseif sub(value, 1, #head) == head then
        idle[i] = unpack_('<d', value, #head + 1)
        before[i] = idle[i]
      else
        idle[i], lent[i], lentUntil[i] = lentIn(value, head, ups[policy])
        if not idle[i] then slow[i], some = true, true end
      end
    end
  end
  if not some or not sizes[1] then
    local changed, k = {}, 0
    for g = 1, sizes[1] and #sizes or #codes do
      local to, ok = k + (sizes[g] or 1), true
      local isApart = some and slow[same[to] or to]
      for i = k + 1, isApart and k or to do
        local at, policy, cost = idle[same[i] or i], codes[i], costs[i] or 1
        local us = (at > now and at or now) + cost * ups[policy]
        if us - now > tolerances[policy] or cost > limits[policy] then ok = false end
        reply[i + 1] = us
      end
      for i = k + 1, isApart and k or to do
        local first = same[i] or i
        if ok then
          idle[first] = reply[i + 1]
          if again then changed[first] = true end
        else
          reply[i + 1] = -1 - idle[first]
        end
      end
      if isApart then
        reply[to + 1] = ${APART}
        apart = apart or {}
        apart[#apart + 1] = { key = KEYS[to], policy = codes[to], cost = costs[to] or 1 }
      end
      k = to
    end
    -- Those that get a new time to live are written by one command: a SET with both for each takes longer.
    write = function()
      local states, lives, n = {}, {}, 0
      for i = 1, k do
        if changed[i] or not again and reply[i + 1] >= 0 then
          local us, policy = idle[i], codes[i]
          if not told and before[i] >= startOf(us, spans[policy]) then
            call('SETRANGE', KEYS[i], offsets[policy], pack('<d', us))
          else
            local head, kept, untilUs = heads[policy], keptUntil(us, spans[policy]), lentUntil[i] or 0
            if untilUs > 0 then head = char(byte(head, 1) + 128) .. sub(head, 2) end
            n = n + 1
            states[2 * n - 1], states[2 * n] = KEYS[i], pack('<c0d', head, us) .. (lent[i] or '')
            lives[n] = format('%d', ceil(((kept > untilUs and kept or untilUs) - since) / 1000) + slack)
          end
        end
      end
      if n > 0 then call('MSET', unpack(states, 1, 2 * n)) end
      for i = 1, n do call(expire, states[2 * i - 1], lives[i]) end
    end
    replied = reply
    if not some then
      write()
      return reply
    end
  end
end
${lendQuicklyLua(POLICY, CHARGED)}
local lending = ARGV[4] == 'lend'
if lending then
  local reply = lendQuickly()
  if reply then return reply end
end
${wholeLua}
local a, k = (quick or lending) and 4 or 3, 0

local function num()
  a = a + 1
  return tonumber(ARGV[a])
end

local function text()
  a = a + 1
  return ARGV[a]
end
${gcraLua}${fixedWindowLua}${slidingWindowLua}${strictWindowLua}${slidingLogLua}${atOnceLua}
local function nothing()
  local m = { words = 1, free = true }
  function m.fits() return true end
  function m.book() return 0, 0 end
  function m.giveBack() end
  function m.used() return 0 end
  function m.idle() return 0 end
  return m
end

local outside = false

local function make(name)
  if name == 'gcra' then return gcra(num(), num(), num()) end
  if name == 'leaky' then return gcra(num(), num(), num(), true) end
  if name == 'fixed-window' then return fixedWindow(text(), num(), num()) end
  if name == 'calendar' then
    local limit, bounds = num(), {}
    for i = 1, 4 do bounds[i] = num() end
    outside = outside or now < bounds[1] or now >= bounds[4]
    return fixedWindow('calendar', 0, limit, bounds)
  end
  if name == 'sliding-window' then return slidingWindow(text(), num(), num()) end
  if name == 'strict-window' then return strictWindow(num(), num()) end
  if name == 'sliding-log' then return slidingLog(num(), num()) end
  if name == 'at-once' then return atOnce(num(), num()) end
  return nothing()
end

local formats = {}
local function formatOf(words)
  local format = formats[words] or '<' .. string.rep('d', words)
  formats[words] = format
  return format
end

-- What a policy is beside its name and numbers.
local function shaped(m, shape)
  m.shape, m.told = shape, m.told or m.words
  m.head = char(#shape) .. char(m.words) .. shape
  m.h, m.format = #m.head, formatOf(m.words)
  m.fine = m.words == 2 and sub(shape, 1, 4) == 'gcra'
  return m
end

-- A policy of this shape, to read and correct states by: its limit is not known.
local function policyOf(shape)
  local name, first, second = string.match(shape, '^(%S+) ?(%S*) ?(.*)$')
  if name == 'gcra' then
    local up, down = string.match(first, '^(%d+)/(%d+)$')
    return shaped(gcra(tonumber(up), tonumber(down), 0), shape)
  elseif name == 'fixed-window' then
    local window = tonumber(second)
    return shaped(fixedWindow(window and first or 'calendar', window or 0, 0, not window and {}), shape)
  elseif name == 'sliding-window' then
    return shaped(slidingWindow(first, tonumber(second), 0), shape)
  elseif name == 'strict-window' then
    return shaped(strictWindow(tonumber(first), 0), shape)
  elseif name == 'sliding-log' then
    return shaped(slidingLog(tonumber(first), 0), shape)
  end
  return shaped(nothing(), shape)
end

local function zeros(words)
  local s = {}
  for i = 1, words do s[i] = 0 end
  return s
end

local lapse

-- Reads a whole string, as the policy that wrote it does.
local function parse(e, raw)
  local n, words = byte(raw, 1), byte(raw, 2)
  local at = 3 + n % 128
  local shape = sub(raw, 3, at - 1)
  local m = e.m.shape == shape and e.m or policyOf(shape)
  e.m = m
  if m.log then
    m.load(e)
    return
  end
  e.s = { struct.unpack(formatOf(words), raw, at) }
  e.s[words + 1] = nil
  if n < 128 then return end
  local lent
  e.era, e.keepUntil, e.block, e.lateUntil, lent, at = struct.unpack('<ddddd', raw, at + 8 * words)
  if lent > 0 then
    e.loans = { struct.unpack(formatOf(lent), raw, at) }
    at = e.loans[lent + 1]
    e.loans[lent + 1] = nil
    lapse(e)
  end
  if at > #raw then return end
  if e.lateUntil <= now then
    e.lateUntil = 0
    return
  end
  e.late = { struct.unpack(formatOf((#raw - at + 1) / 8), raw, at) }
  e.late[#e.late] = nil
end

local entries, dirty = {}, {}

local function touch(e)
  e.new = false
  if e.dirty then return end
  e.dirty = true
  dirty[#dirty + 1] = e
end

-- The state of a key as it is, read once.
local function read(key, m)
  local e = entries[key]
  if e then return e end
  e = { key = key, m = m, s = {}, era = 0, keepUntil = 0, block = 0, lateUntil = 0 }
  entries[key] = e
  if m.load then
    local raw = m.load(e)
    if raw then parse(e, raw) end
    return e
  end
  local raw = call('GET', key)
  if not raw then
    e.s, e.new = zeros(m.words), true
  elseif sub(raw, 1, m.h) == m.head then
    e.s = { struct.unpack(m.format, raw, m.h + 1) }
    e.s[m.words + 1] = nil
  else
    parse(e, raw)
  end
  return e
end

local function idleOf(e)
  local m = e.m
  return m.idleOf and m.idleOf(e) or m.idle(e.s)
end

-- What was booked until now can no longer be given back: by its era, as long as there is anything to give.
local function newEra(e, idle)
  if idle <= now then return end
  e.era = e.era + 1
  e.keepUntil = max(e.keepUntil, idle)
end

-- The same as another policy sees it: what was used is used. Kept once a take has seen it, also if that is refused.
local function seenBy(e, m, keep)
  local units = e.m.log and e.m.usedOf(e, now) or e.m.used(e.s, now)
  local other = { key = e.key, m = m, s = zeros(m.words), shift = e.shift, lateUntil = 0 }
  other.era, other.keepUntil, other.block = e.era, e.keepUntil, e.block
  -- What is lent counts as used, whichever policy it was lent by; those that can go on to hold it do.
  other.loans = m.lentUntil and e.loans
  if m.clear then m.clear(other) end
  newEra(other, max(idleOf(e), e.lateUntil))
  if units > 0 then
    m.book(other, now + e.shift, units)
    -- Else who goes to and fro between two would never have the last unit back.
    if m.unit and e.m.unit then m.moveUp(other.s, e.m.back(e.s, now, m.unit)) end
  end
  if keep then
    e.replaced = true
    entries[e.key] = other
    touch(other)
  end
  return other
end

local function find(op)
  local e, m = read(op.key, op.m), op.m
  e.shift = op.shift
  if e.m == m then return e end
  if e.m.shape == m.shape or e.new then
    if e.new then e.s = zeros(m.words) end
    e.m = m
    if e.new and m.clear then m.clear(e) end
    return e
  end
  if m.free and op.asked then
    -- Without a limit there is nothing to take over, and nothing to lose.
    return { key = e.key, m = m, s = { 0 }, shift = 0, era = e.era, block = e.block, lateUntil = 0, keepUntil = 0 }
  end
  if op.asked or op.ask or idleOf(e) <= now and not m.free then
    return seenBy(e, m, op.verb ~= ${verbs.peek})
  end
  op.foreign = true
  op.m, e.shift = e.m, e.m.shifted and e.s[e.m.words] or 0
  return e
end

local function fits(op, cost)
  local e = op.e
  return e.block <= now and op.m.fits(e, now + e.shift, cost)
end

local function mostThatFit(op, most)
  if fits(op, most) then return most end
  local low, high = 0, most - 1
  while low < high do
    local middle = ceil((low + high) / 2)
    if fits(op, middle) then low = middle else high = middle - 1 end
  end
  return low
end

${lendingLua}
local function change(op)
  local e, m = op.e, op.m
  if op.free and op.verb ~= ${verbs.block} and op.verb ~= ${verbs.reset} then return end
  if op.verb == ${verbs.block} then
    e.block = op.cost > 0 and now + op.cost or 0
  elseif op.verb == ${verbs.reset} then
    newEra(e, max(idleOf(e), e.lateUntil))
    e.block, e.late, e.lateUntil, e.s = 0, nil, 0, zeros(m.words)
    if m.clear then m.clear(e) end
    -- What is lent is not forgotten: it is yet to be spent.
    if e.loans then m.book(e, now + e.shift, outOf(e.loans)) end
  elseif op.verb == ${verbs.settle} and op.cost > 0 then
    m.book(e, now + e.shift, op.cost)
  elseif op.era >= e.era then
    if op.verb == ${verbs.renew} then
      if m.renew then m.renew(e, now, op.cost, op.ref) end
    elseif op.foreign or not m.stays or not m.stays(e, now + e.shift, op.ref, op.refPart) then
      m.giveBack(e, now + e.shift, -op.cost, op.ref, op.refPart)
    end
  else
    return
  end
  if e.loans and m.hold then m.hold(e.s, now, outOf(e.loans)) end
  touch(e)
end

local reply = replied or {}

-- What came of an op: a code, the numbers of its state, and what else the code says.
local function tell(op)
  local e, m = op.e, op.m
  local aside = e.era > 0 or e.block > now
  local views = m.view ~= nil
  local named = op.charged and not views and (op.bookedRef ~= e.s[1] or op.bookedPart ~= (m.fine and e.s[2] or 0))
  local n = #reply + 1
  -- The state that is told may have less left than what a peek saw: others of its group were charged.
  local fitting = op.verb == ${verbs.peek} and op.ok
  reply[n] = (op.charged and ${CHARGED} or 0) + (aside and ${ASIDE} or 0) + (named and ${REF} or 0) + (fitting and ${FITS} or 0)
  if views then
    m.view(e, now + e.shift, op.units, reply, op.charged, op.bookedRef or 0)
  else
    local s = e.s
    for i = 1, m.told do reply[n + i] = s[i] end
  end
  n = #reply
  if aside then reply[n + 1], reply[n + 2] = e.era, e.block end
  if named then
    n = #reply
    reply[n + 1], reply[n + 2] = op.bookedRef, op.bookedPart
  end
  if op.ask then
    n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = op.units, op.kept, op.life
  end
end

-- How long until all that was refused fits, if it may be booked for then: what is charged now counts then as if charged then.
local function ahead(ops)
  local wait = 0
  for _, op in ipairs(ops) do
    if op.asked and not op.ok and not op.observe then
      if not op.within or op.verb ~= ${verbs.take} or not op.m.wait or op.units > op.m.limit or op.e.block > now then return nil end
      wait = max(wait, op.m.wait(op.e, now, op.units))
      if op.m.wait(op.e, now, op.units) > op.within then return nil end
    end
  end
  for _, op in ipairs(ops) do
    if op.verb == ${verbs.take} and op.cost > 0 and not op.m.free and not op.observe then
      local us, lent = now + op.e.shift, op.e.loans and outOf(op.e.loans) or 0
      if not op.m.same or not op.m.same(op.e, us, us + wait, lent) then return nil end
    end
  end
  return wait
end

local function decide(ops, cost, upTo, books)
  local ok, fitting = true, upTo or cost
  for i, op in ipairs(ops) do
    if op.ask then
      lend(op)
    elseif not op.asked then
      change(op)
    else
      local units = op.flexible and 1 or op.cost
      for j = 1, i - 1 do
        local other = ops[j]
        if other.key == op.key and other.verb == ${verbs.take} and (other.ok or not other.observe) then units = units + other.cost end
      end
      op.units = units
      op.ok = fits(op, units)
      if not op.observe then
        if not op.ok then ok = false
        elseif op.flexible and ok then fitting = min(fitting, mostThatFit(op, upTo)) end
      end
    end
  end
  local wait = books and not ok and ahead(ops)
  if wait then
    ok = true
    for _, op in ipairs(ops) do op.ok = op.ok or not op.observe end
  end
  if ok then
    for _, op in ipairs(ops) do
      if op.ok and op.verb == ${verbs.take} then
        local units = op.flexible and fitting or op.cost
        op.units = units
        if not op.observe or units == op.cost or fits(op, units) then
          op.charged = true
          if units > 0 and not op.m.free then
            op.bookedRef, op.bookedPart = op.m.book(op.e, now + op.e.shift, units)
            touch(op.e)
          else
            op.bookedRef, op.bookedPart = 0, 0
          end
        end
      end
    end
  end
  reply[#reply + 1] = ok and fitting or -1
  if books then reply[#reply + 1] = wait or 0 end
  for _, op in ipairs(ops) do
    if op.asked or op.ask then tell(op) end
  end
end

reply[1] = now

local policies = {}
for i = 1, num() do
  local shape = text()
  policies[i] = shaped(quick and gcra(num(), 1, num()) or make(text()), shape)
end
-- The caller's calendar is open at another page.
if outside then return { now, ${OTHER_PAGE} } end

-- What is known of an id: o, c or f, as its booking is open, was corrected, or was taken back altogether; n or j; until when; the time and the numbers of its
-- reply or, if j, what the caller made of replies from several nodes; then what the caller noted.
local remembered = {}
local function remember(id, value, ms)
  remembered[id] = { value = value, ms = ms or remembered[id] and remembered[id].ms }
end

local function quickOp(key, policy, cost)
  return { key = key, m = policies[policy], verb = ${verbs.take}, cost = cost, asked = true, shift = 0 }
end

-- A group of the quick kind: its takes, then what the quick way would say.
local function quickGroup(size, codes)
  local ops = {}
  for i = 1, size do
    k = k + 1
    local code = byte(codes, k)
    local cost = code > ${COST} and num() or 1
    ops[i] = quickOp(KEYS[k], code % ${COST}, cost)
  end
  for _, op in ipairs(ops) do op.e = find(op) end
  decide(ops, 0)
end

if apart then
  for _, each in ipairs(apart) do
    local op = quickOp(each.key, each.policy, each.cost)
    op.e = find(op)
    decide({ op }, 0)
  end
elseif quick then
  reply[2] = ${NOT_QUICK}
  local sizes, codes = text(), text()
  for g = 1, sizes == '' and #KEYS or #sizes do quickGroup(byte(sizes, g) or 1, codes) end
end
for g = 1, quick and 0 or num() do
  local code = num()
  local flags = code % ${OPS}
  local cost = num()
  local upTo = flags % 2 >= 1 and num() or nil
  local id, memo, idMs, known
  if flags % 4 >= 2 then
    k = k + 1
    id, idMs, memo = KEYS[k], num(), text()
    known = remembered[id] and remembered[id].value or call('GET', id)
    if known and tonumber(string.match(known, '^..(%d+)')) <= now then known = nil end
  end
  local ops, books = {}, false
  for i = 1, (code - flags) / ${OPS} do
    k = k + 1
    local of = num()
    local verb = of % ${OBSERVE}
    local m = policies[floor(of / ${POLICY})]
    local op = { key = KEYS[k], m = m, verb = verb, cost = num(), asked = verb <= 1, free = m.free }
    op.observe = floor(of / ${OBSERVE}) % 2 == 1
    op.flexible = upTo and floor(of / ${FIXED}) % 2 == 0
    if verb == ${verbs.settle} or verb == ${verbs.release} or verb == ${verbs.renew} then
      op.ref, op.refPart, op.era = num(), num(), num()
    elseif verb == ${verbs.lease} then
      op.ask = { holder = num(), seq = num(), held = num(), give = num(), life = num(), most = num() }
    end
    op.shift = m.shifted and num() or 0
    if floor(of / ${WITHIN}) % 2 == 1 then op.within, books = num(), true end
    ops[i] = op
  end
  local correct = flags % 8 >= 4
  if known and not correct and byte(known, 1) ~= 102 then
    -- A repeat: the first reply again.
    reply[#reply + 1] = -2
    reply[#reply + 1] = known
  elseif correct and known and byte(known, 1) ~= 111 then
    reply[#reply + 1] = 0
  elseif id and not correct and not ops[1] then
    -- Only noted: the takes were made elsewhere.
    if memo ~= '' then remember(id, string.format('oj%.0f ', now + idMs * 1000) .. memo, idMs) end
    reply[#reply + 1] = cost
  else
    -- Peeks come last: they see the state that a take has brought over to its policy, not one of their own.
    for _, op in ipairs(ops) do if op.verb ~= ${verbs.peek} then op.e = find(op) end end
    for _, op in ipairs(ops) do if not op.e then op.e = find(op) end end
    local from = #reply + 1
    decide(ops, cost, upTo, books)
    if correct then
      if known then
        remember(id, (flags >= ${FORGET} and 'f' or 'c') .. sub(known, 2))
      elseif idMs > 0 then
        remember(id, string.format('fn%.0f ', now + idMs * 1000), idMs)
      end
    elseif id and reply[from] >= 0 and idMs > 0 then
      local told = {}
      for i = from, #reply do told[#told + 1] = string.format('%.0f', reply[i]) end
      remember(id, string.format('on%.0f %.0f ', now + idMs * 1000, now) .. table.concat(told, ' ') .. '\\n' .. memo, idMs)
    end
  end
end

if write then write() end
for _, e in ipairs(dirty) do
  if not e.replaced then
    local m = e.m
    local untilUs = max(idleOf(e), e.block, e.lateUntil, e.keepUntil, e.loans and lentUntil(e) or 0)
    if m.span and untilUs > now then untilUs = max(untilUs, keptUntil(e.s[1], m.span)) end
    local ttl = ceil((untilUs - now) / 1000)
    if ttl < 1 then
      call('DEL', e.key)
    elseif m.save then
      m.save(e, ttl + slack)
    else
      local head, behind = m.head, ''
      if e.late or e.loans or e.era > 0 or e.block > now then
        head = char(#m.shape + 128) .. sub(head, 2)
        behind = struct.pack('<ddddd', e.era, e.keepUntil, e.block, e.lateUntil, e.loans and #e.loans or 0)
        if e.loans then behind = behind .. struct.pack(formatOf(#e.loans), unpack(e.loans)) end
        if e.late then behind = behind .. struct.pack(formatOf(#e.late), unpack(e.late)) end
      end
      call('SET', e.key, head .. struct.pack(m.format, unpack(e.s)) .. behind, 'PX', format('%d', ttl + slack))
    end
  end
end
for id, each in pairs(remembered) do
  if each.ms then
    call('SET', id, each.value, 'PX', max(1, each.ms) + slack)
  else
    call('SET', id, each.value, 'KEEPTTL')
  end
end
return reply
`
