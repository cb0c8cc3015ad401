package main

import (
	"context"
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// chorePage is how many rows a chore takes in one transaction.
const chorePage = 1000

// rewardsLimit is how long paying rewards may take. One statement adds up all votes of a day, and after an outage all days
// are one transaction: whatever breaks that off breaks it off each time, and nobody is ever paid. Nobody waits for it: who
// finds it at work in another process comes again with the next turn, which has all of its time for itself.
const rewardsLimit = 10 * time.Minute

// chores are what the application does by the clock, whether or not anybody pays.
func (s *service) chores() []worker.Chore {
	settings := s.config.Prices.Community()
	byClock := []worker.Chore{
		{Name: "boosts", Every: time.Minute, Do: s.untilDone(func(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
			n, err := community.ExpireBoosts(ctx, q, now, chorePage)
			return n == chorePage, err
		})},
		{Name: "unclaimed uploads", Every: 10 * time.Second, Do: s.untilDone(func(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
			const page = 100 // a gigabyte at most
			if s.mayBegin() != nil {
				return false, nil // a post may have been paid that carried one of them, and be forgotten
			}
			n, err := community.SweepUploads(ctx, q, settings, now, page)
			return n == page, err
		})},
		{Name: "territories", Every: time.Minute, Do: func(ctx context.Context) error {
			return community.BillTerritories(ctx, s.engine, settings)
		}},
		{Name: "daily rewards", Every: time.Minute, Limit: rewardsLimit, Do: func(ctx context.Context) error {
			return s.inTx(func(ctx context.Context, q *db.Queries, now time.Time) error {
				// Waits too end with the turn: what is broken off sooner begins anew.
				bound := rewardsLimit.Milliseconds()
				if err := q.BoundLocks(ctx, db.BoundLocksParams{Lock: bound, Statement: bound}); err != nil {
					return err
				}
				_, err := community.PayRewards(ctx, q, now, settings)
				return err
			})(dbconn.Within(ctx, rewardsLimit))
		}},
		{Name: "old challenges of wallets", Every: time.Minute, Do: s.untilDone(keyauth.Sweep)},
		{Name: "old keys", Every: time.Minute, Do: s.untilDone(graph.SweepKeys)},
		{Name: "old fingerprints", Every: time.Minute, Do: s.untilDone(community.SweepFingerprints)},
		{Name: "old failures of wallets", Every: time.Minute, Do: s.untilDone(wallet.Sweep)},
		{Name: "old probes", Every: time.Minute, Do: s.untilDone(relay.SweepProbes)},
		{Name: "old messages of webhooks", Every: time.Minute, Do: s.untilDone(webhook.Sweep)},
		{Name: "dropping of invoices", Every: time.Minute, Do: s.untilDone(community.DropInvoices)},
	}
	chores := []worker.Chore{
		{Name: "webhooks", Every: time.Second, Do: again(s.webhooks.Queue)},
		{Name: "partitions", Every: time.Minute, Do: func(ctx context.Context) error {
			made, err := archive.MakeRanges(ctx, s.pool, archive.RangeSize, archive.Pause)
			if made > 0 {
				s.log.InfoContext(ctx, "partitions were made for the actions to come", "ranges", made)
			}
			return err
		}},
	}
	for _, c := range byClock {
		do := c.Do
		c.Do = func(ctx context.Context) error {
			if err := s.clockConfirmed(ctx); err != nil {
				return err
			}
			return do(ctx)
		}
		chores = append(chores, c)
	}
	if every := s.config.ReconcileEvery; every > 0 && s.config.Has("worker") {
		watch := reconcile.NewWatch(s.reconciled(reconcileAgain), every, s.log, s.registry)
		// Each process looks more often than one of them reconciles, to show what the others have found.
		chores = append(chores, worker.Chore{Name: "reconcile", Every: min(every, time.Minute), Limit: watch.Limit(), Do: watch.Turn})
	}
	return chores
}

// clockConfirmed is nil if PostgreSQL's clock roughly agrees with this machine's. What is done too early is not taken
// back: a founder is charged, a territory stopped, or a day's rewards are paid, so that later votes of that day count for
// nobody; or all invoices are cancelled before they can be paid. A node cancels those that have expired by its own clock.
func (s *service) clockConfirmed(ctx context.Context) error {
	return dbclock.Confirm(ctx, s.pool, time.Now)
}

// reconciled is what reconcile compares, with a pause before the second look.
func (s *service) reconciled(again time.Duration) reconcile.Config {
	return reconcile.Config{Pool: s.pool, Nodes: s.nodes, Senders: s.senders().Names(), Issuers: s.nodes.Names(), Again: again, MaxWait: s.config.Relay.MaxWait}
}

// reconcileAgain is long enough for changes under way between a node and the database to arrive.
const reconcileAgain = 2 * time.Second

// inTx is a chore that is one transaction; now is the moment when it began.
func (s *service) inTx(do func(ctx context.Context, q *db.Queries, now time.Time) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return db.InTransaction(ctx, s.pool, func(tx *db.Transaction) error { return do(ctx, db.New(tx), time.Now().UTC()) })
	}
}

// again is a chore that is repeated as long as it finds something. If its time is over meanwhile, the next turn goes on.
func again(do func(context.Context) (found bool, err error)) func(context.Context) error {
	return func(ctx context.Context) error {
		for done := 0; ; done++ {
			found, err := do(ctx)
			if done > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			if err != nil || !found {
				return err
			}
		}
	}
}

// untilDone is a chore of as many transactions as find something to do.
func (s *service) untilDone(do func(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error)) func(context.Context) error {
	return again(func(ctx context.Context) (found bool, err error) {
		err = s.inTx(func(ctx context.Context, q *db.Queries, now time.Time) (err error) {
			found, err = do(ctx, q, now)
			return err
		})(ctx)
		return found, err
	})
}
