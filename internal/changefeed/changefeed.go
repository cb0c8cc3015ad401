// Package changefeed tells those who watch an action that it has changed, in this process and in all others on the same
// database. It carries ids, never contents: readers look for themselves. So a message may come twice, late or never.
package changefeed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	// notifyEvery is how often other processes are told at most: committing a NOTIFY locks the whole database for a
	// moment.
	notifyEvery = 10 * time.Millisecond
	// wakeEvery is how often a subscriber is woken in any case, because a notification can be lost.
	wakeEvery = 3 * time.Second
	// wakeParts spreads these wake-ups over that time, so that not all subscribers read the database at once.
	wakeParts = 16
)

// Feed is one process's part of the feed. It is safe for concurrent use. Without Run it carries only local changes.
type Feed struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	self string // tells our own notifications from those of others

	wakeEvery time.Duration

	mu          sync.Mutex
	subscribers map[int64]map[chan struct{}]struct{}
	pending     map[int64]struct{} // changed here, not yet told to others
	wake        chan struct{}      // holds a token while pending is not empty
	listening   chan struct{}      // closed once Run hears the others
	heard       sync.Once
}

// New makes a feed.
func New(pool *pgxpool.Pool, log *slog.Logger) *Feed {
	return &Feed{
		pool: pool, log: log, self: newID(), wakeEvery: wakeEvery,
		subscribers: map[int64]map[chan struct{}]struct{}{}, pending: map[int64]struct{}{}, wake: make(chan struct{}, 1),
		listening: make(chan struct{}),
	}
}

// Run tells other processes and hears them until ctx ends, and then returns nil. An unreachable database does not end
// it.
func (f *Feed) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { f.tell(ctx); return nil })
	group.Go(func() error { f.hear(ctx); return nil })
	group.Go(func() error { f.wakeAnyway(ctx); return nil })
	return group.Wait()
}

// Listening is closed once Run hears changes made by other processes for the first time.
func (f *Feed) Listening() <-chan struct{} { return f.listening }

// Changed says that an action has changed. Call it after the commit. It does not block.
func (f *Feed) Changed(id int64) {
	f.mu.Lock()
	f.pending[id] = struct{}{}
	wakeAll(f.subscribers[id])
	f.mu.Unlock()
	token(f.wake)
}

// Subscribe returns a channel that receives a token after each change of the action, and every few seconds in any case.
// While a token is unread, further changes add none: a slow reader misses nothing and holds up nobody. The channel is
// closed when ctx ends.
func (f *Feed) Subscribe(ctx context.Context, id int64) <-chan struct{} {
	own := make(chan struct{}, 1)
	f.mu.Lock()
	if f.subscribers[id] == nil {
		f.subscribers[id] = map[chan struct{}]struct{}{}
	}
	f.subscribers[id][own] = struct{}{}
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.subscribers[id], own)
		if len(f.subscribers[id]) == 0 {
			delete(f.subscribers, id)
		}
		close(own)
	})
	return own
}

// wakeAnyway wakes every subscriber now and then.
func (f *Feed) wakeAnyway(ctx context.Context) {
	turn := time.NewTicker(f.wakeEvery / wakeParts)
	defer turn.Stop()
	for part := int64(0); ; part = (part + 1) % wakeParts {
		select {
		case <-ctx.Done():
			return
		case <-turn.C:
		}
		f.wakeIf(func(id int64) bool { return id%wakeParts == part })
	}
}

func (f *Feed) wakeIf(who func(id int64) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, all := range f.subscribers {
		if who(id) {
			wakeAll(all)
		}
	}
}

// wakeAll is called with the feed's lock held: no channel is closed meanwhile.
func wakeAll(all map[chan struct{}]struct{}) {
	for own := range all {
		token(own)
	}
}

// token sends a token, if none is there yet.
func token(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
