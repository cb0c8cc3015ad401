package config

import (
	"math"
	"slices"
	"time"
)

// Bounds limit how long the database puts up with this process's connections. They keep a process that stands still, or
// a statement that went wrong, from holding rows that others wait for.
type Bounds struct {
	Stall     time.Duration `help:"How long a transaction may be idle before PostgreSQL ends it; 0: for ever." default:"10s"`
	LockWait  time.Duration `help:"The longest that a statement waits for a lock; 0: for ever." default:"20s"`
	Statement time.Duration `help:"The longest that a statement may take; 0: for ever." default:"1m"`
}

// Parameters are PostgreSQL's own names for the bounds, with their values in milliseconds.
func (b Bounds) Parameters() map[string]int64 {
	return map[string]int64{
		"idle_in_transaction_session_timeout": b.Stall.Milliseconds(),
		"lock_timeout":                        b.LockWait.Milliseconds(),
		"statement_timeout":                   b.Statement.Milliseconds(),
	}
}

// check refuses bounds that would break what works.
func (b Bounds) check(refuse func(when bool, format string, args ...any)) {
	refuse(slices.ContainsFunc([]time.Duration{b.Stall, b.LockWait, b.Statement}, func(bound time.Duration) bool {
		return bound%time.Millisecond != 0 || bound > math.MaxInt32*time.Millisecond
	}), "PostgreSQL counts whole milliseconds, to %d: set HOLDFAST_DATABASE_STALL, HOLDFAST_DATABASE_LOCK_WAIT and HOLDFAST_DATABASE_STATEMENT so.", math.MaxInt32)
	refuse(b.Stall < 0 || (b.Stall > 0 && b.Stall < time.Second),
		"A pause of the machine would end transactions: set HOLDFAST_DATABASE_STALL to 1s or more, or to 0.")
	refuse(b.LockWait < 0 || (b.LockWait > 0 && b.LockWait <= b.Stall),
		"Who waits for a process that stands still would give up before PostgreSQL ends that: set HOLDFAST_DATABASE_LOCK_WAIT above HOLDFAST_DATABASE_STALL (%s), or to 0.", b.Stall)
	refuse(b.Statement < 0 || (b.Statement > 0 && b.Statement <= b.LockWait),
		"A statement would end while it still may wait for a lock: set HOLDFAST_DATABASE_STATEMENT above HOLDFAST_DATABASE_LOCK_WAIT (%s), or to 0.", b.LockWait)
}
