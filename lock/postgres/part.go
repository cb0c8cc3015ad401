package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// errShared means that no part is taken through a pooler, on whose session it would stay when this instance is gone.
var errShared = errors.New("a pooler answers, whose sessions are nobody's own: give the database's address past it as HOLDFAST_LOCK_DIRECT_URL")

// errAway stands for whatever else keeps an instance from taking part.
var errAway = errors.New("the database is away")

// partAgain is how long after a failure it is tried again to take part.
const partAgain = time.Second

// part is a store whose locks are not in the database, with a session there that keeps instances with their locks in memory from starting.
type part struct {
	lock.Store
	stop context.CancelFunc
	done chan struct{}
}

// TakingPart has a store whose locks are neither in the database nor in memory take part in what tells instances apart: beside it none with its
// locks in memory starts ([ErrNotAlone]), as beside a [Store]. direct is as for [OpenMemory].
//
// Order alone depends on it. While no part can be taken, since the database is away, a pooler answers, or there is such an instance already, the store
// works all the same, and the log says why. It is tried again until the store is closed.
func TakingPart(store lock.Store, direct string, log *slog.Logger) (lock.Store, error) {
	config, err := pgx.ParseConfig(direct)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the lock's direct address of the database: %w", err), store.Close())
	}
	dbconn.Bound(config)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // as in OpenMemory
	config.RuntimeParams["application_name"] = "holdfast-lock-part"
	ctx, stop := context.WithCancel(context.Background())
	p := &part{Store: store, stop: stop, done: make(chan struct{})}
	go p.keep(ctx, config, log)
	return p, nil
}

// keep takes part until ctx ends.
func (p *part) keep(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) {
	defer close(p.done)
	for said := error(nil); ; {
		err := partOf(ctx, config, func() { said = nil })
		if why := reason(err); ctx.Err() == nil && why != said {
			log.WarnContext(ctx, "an instance with its locks in memory does not know of this one", "store", p.Name(), "error", err)
			said = why
		}
		again := time.NewTimer(partAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
	}
}

// reason is what an error of partOf comes down to. It is said once, however often it is tried again: a connection that fails has an error of its own each time.
func reason(err error) error {
	for _, known := range []error{ErrNotAlone, errShared} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errAway
}

// partOf takes part for as long as its connection lasts, and returns why it does not any more, or cannot. It calls taken once it does.
func partOf(ctx context.Context, config *pgx.ConnConfig, taken func()) error {
	connecting, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	if is, err := pooled(connecting, conn); err != nil || is {
		return cmp.Or(err, errShared)
	}
	if err := takePart(ctx, conn); err != nil {
		return err
	}
	taken()
	_, err = conn.WaitForNotification(ctx) // there are none: it returns when the connection or ctx is over
	return err
}

// Close implements [lock.Store].
func (p *part) Close() error {
	p.stop()
	<-p.done
	return p.Store.Close()
}
