package graph

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

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
)

// whose is a question for the user of a key. Until it is answered it has an error.
type whose struct {
	hash  []byte
	found db.UsersByKeysRow
	err   error
}

var errNotAnswered = errors.New("the key was not looked up")

// userByKey is who has a key that is good; pgx.ErrNoRows where nobody has, or it has expired.
func (r *resolver) userByKey(ctx context.Context, hash []byte) (db.UsersByKeysRow, error) {
	w := &whose{hash: hash, err: errNotAnswered}
	if err := r.keys.Do(ctx, w); err != nil {
		return w.found, err
	}
	if w.err == nil && w.found.ExpiresAt != nil && !r.Now().Before(*w.found.ExpiresAt) {
		return db.UsersByKeysRow{}, pgx.ErrNoRows
	}
	return w.found, w.err
}

func (c Config) lookUpKeys() *gather.Group[*whose] {
	looks := gather.New(looksAtOnce, keysOfALook, func(ctx context.Context, all []*whose) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if len(all) == 1 {
			row, err := db.New(c.Pool).UserByKey(ctx, all[0].hash)
			all[0].found, all[0].err = db.UsersByKeysRow{UserID: row.UserID, Scopes: row.Scopes, ExpiresAt: row.ExpiresAt}, err
			return
		}
		hashes := make([][]byte, len(all))
		for i, w := range all {
			hashes[i] = w.hash
		}
		var rows []db.UsersByKeysRow
		err := db.Alone(ctx, c.Pool, func(q *db.Queries) (err error) {
			rows, err = q.UsersByKeys(ctx, hashes)
			return err
		})
		found := map[string]db.UsersByKeysRow{}
		for _, row := range rows {
			found[string(row.KeyHash)] = row
		}
		for _, w := range all {
			var known bool
			w.found, known = found[string(w.hash)]
			if w.err = err; err == nil && !known {
				w.err = pgx.ErrNoRows
			}
		}
	})
	looks.Patience = lookPatience
	return looks
}
