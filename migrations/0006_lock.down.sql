DROP FUNCTION lock_enter, lock_beat, lock_release, lock_leave, lock_advance, lock_hand_over, lock_sweep;
DROP TABLE lock_ticket, lock_key, lock_process;
DROP SEQUENCE lock_fence;
