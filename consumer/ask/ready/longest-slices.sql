-- Slices by name, those with the longest one first: how many, longest, mean (track events)
SELECT
  name AS slice,
  count(*) AS slices,
  max(dur) / 1e6 AS longest_ms,
  avg(dur) / 1e6 AS mean_ms,
  sum(dur) / 1e6 AS sum_ms
FROM slice
WHERE dur >= 0
GROUP BY name
ORDER BY longest_ms DESC, slice
LIMIT 100
