ALTER TABLE timeline DROP last_action;
