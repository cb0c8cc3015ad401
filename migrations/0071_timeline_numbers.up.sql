-- What was begun before a history was accepted is told by its number. The clock of the process that began it may have been ahead.
-- last_action is the newest action when the history was last doubted or accepted, or else when it was met. Nobody knows any more
-- which that was of those that are there already: every action so far counts.
ALTER TABLE timeline ADD last_action bigint NOT NULL DEFAULT newest_action();
