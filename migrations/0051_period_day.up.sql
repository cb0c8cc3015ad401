-- The periods of a territory are counted from a day of the month, that of its first one. Counted from the end of the last one alone, those that began on the 29th to
-- the 31st stayed at the shortest month that came between: the 28th, after a February.
ALTER TABLE territory ADD COLUMN period_day smallint; -- a period ends on it, or on the last day of a month that has no such day; NULL while none was paid for

-- Those that have drifted go back to the day on which they were founded or taken over: the next period ends on it, and is by so much longer. What is paid for already
-- ends when it was said to.
UPDATE territory SET period_day = CASE WHEN was.day < 28 THEN was.day ELSE greatest(was.day, was.began) END FROM (
    SELECT name, extract(day FROM period_start AT TIME ZONE 'UTC')::smallint AS day,
        extract(day FROM coalesce((SELECT max(at) FROM territory_transfer WHERE territory = t.name), created_at) AT TIME ZONE 'UTC')::smallint AS began
    FROM territory t WHERE period_start IS NOT NULL
) was WHERE territory.name = was.name;

ALTER TABLE territory ADD CONSTRAINT territory_period_day CHECK (period_day BETWEEN 1 AND 31 AND (period_day IS NULL) = (period_start IS NULL));
