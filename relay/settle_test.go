package relay_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// settling notes the jobs of what is to be settled before all else, and the state that their action is in by then.
type settling struct {
	paidaction.Jobs
	mu   sync.Mutex
	jobs []string
}

func (s *settling) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	for _, job := range jobs {
		if job.Settles {
			var state string
			if err := tx.QueryRow(ctx, `SELECT concat(state, ' ', flow) FROM paid_action WHERE id = $1`, job.Action).Scan(&state); err != nil {
				return err
			}
			s.mu.Lock()
			s.jobs = append(s.jobs, state)
			s.mu.Unlock()
		}
	}
	return s.Jobs.Insert(ctx, tx, jobs...)
}

// spec 01 §1.1, 03 §3.3: once the receiver is paid, the payer's payment is taken before anything else is done. That is so of nothing else.
func TestWhatIsToBeSettledGoesBeforeAllElse(t *testing.T) {
	b := newBundle(t, paidaction.Settings{}, "one").rich(100)
	config := b.Engine.Config
	jobs := &settling{Jobs: config.Jobs}
	config.Jobs = jobs
	var err error
	if b.Engine, err = paidaction.New(config); err != nil {
		t.Fatal(err)
	}
	held := b.Pay(b.payer, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.Pessimistic)
	if err := b.Node.PayHash(held.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	b.Advance(held.ID) // performed, and settled
	b.Advance(held.ID) // the node says that it is settled
	inv := b.wallet.Receiver.Issue(simnode.Ask{Amount: 50_000})
	left := b.Pay(b.payer, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	wrapped := b.zap()
	b.pay(wrapped)
	b.Run(b.Relay)
	for _, pa := range []*paidaction.PaidAction{held, left, wrapped} {
		b.Await(pa.ID, paidaction.Paid)
	}
	jobs.mu.Lock()
	defer jobs.mu.Unlock()
	if want := []string{"FORWARDED WRAPPED"}; !slices.Equal(jobs.jobs, want) {
		t.Errorf("jobs of %v, want of %v", jobs.jobs, want)
	}
}
