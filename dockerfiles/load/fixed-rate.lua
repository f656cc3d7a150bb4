-- Requests at a fixed rate, whatever the answers take: wrk -t N -c N -d 10s -s fixed-rate.lua URL -- RATE_PER_S N
-- Each of the N connections has a thread of wrk's, and a timetable of its own. A request that was due while the one
-- before it had no answer yet is late by the service's fault: its latency counts from when it was due, as whoever had
-- sent it would have felt it. wrk's own percentiles leave that out. Prints one line of JSON, with all latencies.
local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } interlock_time;
  int clock_gettime(int clock, interlock_time *time);
]]
local CLOCK_MONOTONIC = 1
local moment = ffi.new("interlock_time")

local function now()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, moment)
  return tonumber(moment.seconds) + tonumber(moment.nanoseconds) / 1e9
end

local threads = {}

function setup(thread)
  thread:set("number", #threads)
  table.insert(threads, thread)
end

-- From here to `response`: in each thread, whose globals are its own.
function init(arguments)
  interval_s = tonumber(arguments[2]) / tonumber(arguments[1])
  stagger_s = number / tonumber(arguments[1])
  latencies = {}
  text = wrk.format()
end

-- Before each request: in how many milliseconds it is to be sent.
function delay()
  local clock = now()
  due = due and due + interval_s or clock + stagger_s
  began = due <= clock and due or nil
  return math.max(0, math.floor((due - clock) * 1000 + 0.5))
end

function request()
  -- On time, but for wrk's timer, which knows milliseconds: that is not the service's fault.
  began = began or now()
  return text
end

function response()
  table.insert(latencies, now() - began)
  began = nil
end

-- What was due and had no answer at the end took at least until then.
local function add_unanswered(found, thread, clock)
  local due, interval_s = thread:get("due"), thread:get("interval_s")
  local missed = 0
  if due and thread:get("began") and clock - due >= interval_s then
    while due <= clock do
      table.insert(found, clock - due)
      missed = missed + 1
      due = due + interval_s
    end
  end
  return missed
end

function done(summary)
  local clock, found, unanswered = now(), {}, 0
  for _, thread in ipairs(threads) do
    for _, latency_s in ipairs(thread:get("latencies")) do
      table.insert(found, latency_s)
    end
    unanswered = unanswered + add_unanswered(found, thread, clock)
  end
  for at, latency_s in ipairs(found) do
    found[at] = string.format("%d", latency_s * 1e6)
  end
  local errors = summary.errors
  print(string.format(
    '{"interlock_load": {"unanswered": %d, "bad_answers": %d, "broken": %d, "latencies_us": [%s]}}',
    unanswered, errors.status, errors.connect + errors.read + errors.write, table.concat(found, ", ")))
end
