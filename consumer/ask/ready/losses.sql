-- What the trace has lost, or could not be read of it: the counters that say so
SELECT
  name AS counter,
  idx AS buffer_or_cpu,
  severity,
  value,
  description
FROM stats
WHERE severity IN ('data_loss', 'error') AND value > 0
ORDER BY severity, value DESC
