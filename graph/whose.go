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

// Keys that are looked up at the same time are looked up together. Each look is begun after its request has come, so that a key which
// was revoked before is good for nothing.
const (
	looksAtOnce  = 4
	keysOfALook  = 64
	lookPatience = 10 * time.Millisecond
	lookTimeout  = 10 * time.Second
	keysKept     = 1 << 16 // in memory, some 300 bytes each
)

// whose is a question for the user of a key. Until it is answered it has an error.
type whose struct {
	hash  []byte
	found holder
	err   error
}

// holder is who has a key.
type holder struct {
	user   int64
	scopes []string
	until  *time.Time // nil: until it is revoked
}

var (
	errNotAnswered = errors.New("the key was not looked up")
	errNoEpoch     = errors.New("key_epoch has no row")
)

// userByKey is who has a key that is good; pgx.ErrNoRows where nobody has, or it has expired.
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

// keyring remembers whose keys are, without believing it: each look asks the database whether its epoch is still the one of what is remembered, which it is until
// any key is revoked. So a look reads one row where it would read one for each key.
type keyring struct {
	pool *pgxpool.Pool
	kept atomic.Pointer[epoch]
}

// epochID is which epoch it is, and of which server: since when that one has run, in nanoseconds. The zero value is none.
type epochID struct{ number, server int64 }

// epoch is what was good while no key was revoked. What is not good is not remembered.
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

// look answers all, or returns an error. Nobody has an answer before the database has given its own: whoever leads a group may panic, and the others find theirs as it is.
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
			// What is remembered may be good no longer. This one's epoch may be over already, too: then whoever asks next finds out.
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

// ask asks for the epoch, and in the same moment whose these keys are.
func (k *keyring) ask(ctx context.Context, hashes [][]byte) (now epochID, found map[string]holder, err error) {
	if len(hashes) == 0 {
		row, err := db.New(k.pool).KeyEpoch(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errNoEpoch // not that nobody has the key
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
