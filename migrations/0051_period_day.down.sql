ALTER TABLE territory DROP COLUMN period_day;
