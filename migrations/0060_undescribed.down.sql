ALTER TABLE user_preference DROP hide_descriptions;
