package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// channel is where a process hears of its own tickets (common.lua knows the name too).
func channel(process string) string { return prefix + "w:" + process }

// pingEvery is how long the connection may be silent before the server is asked whether it is there.
const pingEvery = 2 * time.Second

var errSilent = errors.New("nothing is heard on the connection that listens")

// Listen implements [lock.Store].
func (s *Store) Listen(ctx context.Context, p lock.Process, up func(bool), woken func(string, int64)) error {
	sub := s.client.Subscribe(ctx, channel(p.ID))
	// Receiving does not notice that ctx is over.
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	asked := false
	for {
		message, err := sub.ReceiveTimeout(ctx, pingEvery)
		timeout := net.Error(nil)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			asked = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			continue
		case errors.As(err, &timeout) && timeout.Timeout():
			return errSilent
		case err != nil:
			return err
		}
		asked = false
		switch m := message.(type) {
		case *redis.Subscription:
			up(true)
		case *redis.Message:
			id, text, _ := strings.Cut(m.Payload, " ")
			if fence, err := strconv.ParseInt(text, 10, 64); err == nil {
				woken(id, fence)
			}
		}
	}
}
