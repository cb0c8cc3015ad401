DROP TRIGGER balance_delta_folded ON balance_delta;
DROP FUNCTION refuse_unfolded;
DROP TRIGGER balance_delta_not_truncated ON balance_delta;
DROP TRIGGER balance_delta_append_only ON balance_delta;
DROP TRIGGER account_not_truncated ON account;
DROP TRIGGER account_kept ON account;
