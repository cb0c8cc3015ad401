package changefeed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
)

// channel is the PostgreSQL channel on which processes tell each other of changes.
const channel = "holdfast_changed"

// maxPayload is how many bytes are put into one notification; PostgreSQL's limit is 8000.
const maxPayload = 7900

const (
	callTimeout  = 5 * time.Second
	minReconnect = 100 * time.Millisecond
	maxReconnect = 5 * time.Second
)

func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// tell sends what has changed to the other processes: at once after a quiet time, otherwise together with the changes
// of the next milliseconds. What cannot be sent is dropped: the others wake their subscribers in any case.
func (f *Feed) tell(ctx context.Context) {
	pause := time.NewTimer(notifyEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if err := f.notify(ctx, f.take()); err != nil && ctx.Err() == nil {
			f.log.WarnContext(ctx, "other processes could not be told of changes", "error", err)
		}
		pause.Reset(notifyEvery)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

func (f *Feed) take() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]int64, 0, len(f.pending))
	for id := range f.pending {
		ids = append(ids, id)
	}
	clear(f.pending)
	return ids
}

func (f *Feed) notify(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := f.pool.Exec(ctx, "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload", channel, payloads(f.self, ids))
	return err
}

// payloads are messages of the form "sender id id id".
func payloads(self string, ids []int64) []string {
	var all []string
	payload := []byte(self)
	for _, id := range ids {
		if len(payload)+20 > maxPayload {
			all = append(all, string(payload))
			payload = append(payload[:0], self...)
		}
		payload = append(payload, ' ')
		payload = strconv.AppendInt(payload, id, 10)
	}
	return append(all, string(payload))
}

// hear wakes subscribers of what other processes have changed. It has its own connection, outside the pool.
func (f *Feed) hear(ctx context.Context) {
	wait := minReconnect
	for ctx.Err() == nil {
		begun := time.Now()
		err := f.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > maxReconnect {
			wait = minReconnect
		}
		f.log.WarnContext(ctx, "the connection that hears of changes ended and is made again", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, maxReconnect)
	}
}

func (f *Feed) listen(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	settings := f.pool.Config().ConnConfig
	dbconn.Listens(settings)
	conn, err := pgx.ConnectConfig(connecting, settings)
	if err != nil {
		return err
	}
	defer func() {
		// Even if the context is over, tell the server.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return err
	}
	// What changed while we did not listen is unknown.
	f.wakeIf(func(int64) bool { return true })
	f.heard.Do(func() { close(f.listening) })
	for {
		message, err := conn.WaitForNotification(ctx)
		if err != nil && ctx.Err() == nil {
			// What ended this connection, for example a restart of the server, has ended the pool's idle connections
			// too. Nobody else has noticed: the next user of one of them would get an error.
			f.pool.Reset()
		}
		if err != nil {
			return err
		}
		f.receive(message.Payload)
	}
}

func (f *Feed) receive(payload string) {
	fields := strings.Fields(payload)
	if len(fields) == 0 || fields[0] == f.self {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, field := range fields[1:] {
		if id, err := strconv.ParseInt(field, 10, 64); err == nil {
			wakeAll(f.subscribers[id])
		}
	}
}
