-- The CPU time of each process, most first (sched events); a thread without process is itself
SELECT
  sum(sched.dur) / 1e6 AS cpu_ms,
  100.0 * sum(sched.dur) / (SELECT nullif(sum(dur), 0) FROM sched WHERE dur > 0) AS percent,
  count(DISTINCT thread.utid) AS threads,
  coalesce(process.pid, thread.tid) AS pid,
  coalesce(process.name, thread.name) AS process
FROM sched
JOIN thread USING (utid)
LEFT JOIN process USING (upid)
WHERE sched.dur > 0 AND thread.tid != 0
GROUP BY coalesce('p' || process.upid, 't' || thread.utid)
ORDER BY cpu_ms DESC
