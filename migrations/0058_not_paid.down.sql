DROP INDEX paid_action_not_paid;
