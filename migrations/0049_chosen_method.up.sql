-- Who says how they will pay has not said that their balance may be taken instead. The service begins the next attempt of a zap whose receiver could not be
-- paid by itself, and asks nobody.
ALTER TABLE invoice ADD COLUMN chosen boolean NOT NULL DEFAULT false;
