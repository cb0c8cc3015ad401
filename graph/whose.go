package graph

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
)

// Keys that are looked up at the same time share one look. A look begins after its requests have come, so a key that
// was revoked before them is refused.
const (
	looksAtOnce  = 4
	keysOfALook  = 64
	lookPatience = 10 * time.Millisecond
	lookTimeout  = 10 * time.Second
	keysKept     = 1 << 16 // in memory, about 300 bytes each
)

// whose asks for the user of a key. Until it is answered, it has an error.
type whose struct {
	hash  []byte
	found holder
	err   error
}

// holder is the user who has a key.
type holder struct {
	user   int64
	scopes []string
	until  *time.Time // nil: until it is revoked
}

var (
	errNotAnswered = errors.New("the key was not looked up")
	errNoEpoch     = errors.New("key_epoch has no row")
)

// userByKey returns who has a good key; pgx.ErrNoRows if nobody has it, or if it has expired.
func (r *resolver) userByKey(ctx context.Context, hash []byte) (holder, error) {
	w := &whose{hash: hash, err: errNotAnswered}
	if err := r.keys.Do(ctx, w); err != nil {
		return holder{}, err
	}
	if w.err == nil && w.found.until != nil && !r.Now().Before(*w.found.until) {
		return holder{}, pgx.ErrNoRows
	}
	return w.found, w.err
}

func (c Config) lookUpKeys() *gather.Group[*whose] {
	ring := &keyring{pool: c.Pool}
	ring.kept.Store(newEpoch(epochID{}))
	looks := gather.New(looksAtOnce, keysOfALook, func(ctx context.Context, all []*whose) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if err := ring.look(ctx, all); err != nil {
			for _, w := range all {
				w.err = err
			}
		}
	})
	looks.Patience = lookPatience
	return looks
}

// keyring remembers who has which key, but never trusts that alone. Each look asks the database whether the epoch is
// still the one in which the answers were remembered. Every revoked key begins a new epoch. So a look reads one row
// rather than one for each key.
type keyring struct {
	pool *pgxpool.Pool
	kept atomic.Pointer[epoch]
}

// epochID is the number of an epoch, and which server it is of: server is when that one started, in nanoseconds. The
// zero value is no epoch.
type epochID struct{ number, server int64 }

// epoch holds the keys that were good while no key was revoked. Keys that are not good are not remembered.
type epoch struct {
	id      epochID
	holders *lru.Cache[string, holder]
}

func newEpoch(id epochID) *epoch {
	holders, err := lru.New[string, holder](keysKept)
	if err != nil {
		panic(err) // the size is above zero
	}
	return &epoch{id, holders}
}

// look answers all questions, or returns an error. No question is answered before the database has answered: the
// goroutine that leads a group may panic, and the others then find their questions as they are.
func (k *keyring) look(ctx context.Context, all []*whose) error {
	for {
		kept := k.kept.Load()
		known := map[string]holder{}
		var unknown [][]byte
		for _, w := range all {
			if h, remembered := kept.holders.Get(string(w.hash)); remembered {
				known[string(w.hash)] = h
			} else {
				unknown = append(unknown, w.hash)
			}
		}
		now, found, err := k.ask(ctx, unknown)
		if err != nil {
			return err
		}
		if now != kept.id {
			// What is remembered may no longer be good. This epoch may be over already, too: then the next look finds
			// out.
			kept = newEpoch(now)
			k.kept.Store(kept)
			if len(unknown) < len(all) {
				continue
			}
		}
		for hash, h := range found {
			kept.holders.Add(hash, h)
			known[hash] = h
		}
		for _, w := range all {
			var good bool
			if w.found, good = known[string(w.hash)]; good {
				w.err = nil
			} else {
				w.err = pgx.ErrNoRows
			}
		}
		return nil
	}
}

// ask asks for the epoch and, at the same moment, who has these keys.
func (k *keyring) ask(ctx context.Context, hashes [][]byte) (now epochID, found map[string]holder, err error) {
	if len(hashes) == 0 {
		row, err := db.New(k.pool).KeyEpoch(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errNoEpoch // rather than that nobody has the key
		}
		return epochID{row.Epoch, row.ServerSince.UnixNano()}, nil, err
	}
	var rows []db.UsersByKeysRow
	err = db.Alone(ctx, k.pool, func(q *db.Queries) (err error) {
		rows, err = q.UsersByKeys(ctx, hashes)
		return err
	})
	if err == nil && len(rows) == 0 {
		err = errNoEpoch
	}
	if err != nil {
		return now, nil, err
	}
	found = make(map[string]holder, len(rows))
	for _, row := range rows {
		if row.KeyHash != nil {
			found[string(row.KeyHash)] = holder{row.UserID, row.Scopes, row.ExpiresAt}
		}
	}
	return epochID{rows[0].Epoch, rows[0].ServerSince.UnixNano()}, found, nil
}
