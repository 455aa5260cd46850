-- The 20 longest waits of a thread that could run for a CPU (sched events)
SELECT
  thread_state.ts,
  thread_state.dur / 1e6 AS wait_ms,
  thread_state.state,
  thread.tid,
  thread.name AS thread,
  process.pid,
  process.name AS process
FROM thread_state
JOIN thread USING (utid)
LEFT JOIN process USING (upid)
WHERE thread_state.state IN ('R', 'R+') AND thread_state.dur > 0
ORDER BY thread_state.dur DESC
LIMIT 20
