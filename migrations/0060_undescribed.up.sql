-- The invoices of somebody who wants that say nothing of what they pay for: a custodian reads along.
ALTER TABLE user_preference ADD hide_descriptions boolean NOT NULL DEFAULT false;
