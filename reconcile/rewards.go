package reconcile

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// rewards is the audit of the days' payouts, a part of the first invariant: what is owed is posted, once; a day pays no more than it had.
func rewards(ctx context.Context, s *snapshot, found *Invariant) error {
	posted, err := s.BreaksOfRewards(ctx)
	if err != nil {
		return err
	}
	for _, r := range posted {
		found.broke("%s to %s: %d msat are owed, %d msat posted, %d times", r.Reason, ledger.Account(r.Account), r.Owed, r.Posted, r.Postings)
	}
	days, err := s.BreaksOfRewardDays(ctx)
	for _, d := range days {
		found.broke("the rewards of %s: of %d msat of credits and %d msat of sats %d and %d are paid, and %d and %d given",
			d.Day.Format(time.DateOnly), d.PoolCreditsMsat, d.PoolSatsMsat, d.PaidCreditsMsat, d.PaidSatsMsat, d.CreditsMsat, d.SatsMsat)
	}
	return err
}
