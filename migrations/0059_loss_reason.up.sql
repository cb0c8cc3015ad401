-- Why an archived action lost us something: what its postings said. NULL: it was archived before this was kept, or lost nothing.
ALTER TABLE archived_loss ADD COLUMN reason text;
