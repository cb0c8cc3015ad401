DROP TABLE vote_event;
