package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/internal/lockdb"
)

// channel is where a process hears of its own tickets alone (lock_hand_over knows the name too): PostgreSQL wakes only the sessions that listen on it.
func channel(process string) string { return "holdfast_lock_" + process }

// ping is what the process tells itself.
const ping = "ping"

const (
	pingEvery = 5 * time.Second
	pingWait  = 2 * time.Second
)

// Listen implements [lock.Store]. It is sure that wakes get through when it hears what this process told itself through the
// pool: a LISTEN that reached a pooler succeeds and stays silent, and a connection that a firewall has forgotten does too.
func (s *Store) Listen(ctx context.Context, p lock.Process, up func(bool), woken func(string, int64)) error {
	if s.direct == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	connecting, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, s.direct)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	if _, err := conn.Exec(connecting, "LISTEN "+pgx.Identifier{channel(p.ID)}.Sanitize()); err != nil {
		return err
	}

	heard := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for part := false; ; {
			message, err := conn.WaitForNotification(ctx)
			switch {
			case err != nil:
				if ctx.Err() == nil {
					// What ends this connection, a restart of the server say, has ended those that lie idle in the pool too, and whoever took one of them next
					// would be the first to notice.
					s.pool.Reset()
				}
				return err
			case message.Payload != ping:
				// Nobody else knows tickets: what is not one is nobody's.
				id, text, _ := strings.Cut(message.Payload, " ")
				if fence, err := strconv.ParseInt(text, 10, 64); err == nil {
					woken(id, fence)
				}
			default:
				// Only now is it sure that the session is this connection's own: a pooler would keep the lock on one that others get.
				if !part {
					if err := takePart(ctx, conn); err != nil {
						return err
					}
					part = true
				}
				up(true)
				select {
				case heard <- struct{}{}:
				default:
				}
			}
		}
	})
	group.Go(func() error { return s.ping(ctx, p, heard) })
	return group.Wait()
}

// ping tells this process something every few seconds, and fails when it does not hear it.
func (s *Store) ping(ctx context.Context, p lock.Process, heard <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		call, cancel := context.WithTimeout(ctx, pingWait)
		err := s.q.Ping(call, lockdb.PingParams{Channel: channel(p.ID), Message: ping})
		if err == nil {
			select {
			case <-heard:
			case <-call.Done():
				if err = ctx.Err(); err == nil {
					err = errSilent
				}
			}
		}
		cancel()
		if err != nil {
			return err
		}
		timer.Reset(pingEvery)
	}
}
