// Package redis keeps the queues and leases of package lock in Redis: for many instances and very hot keys. Each operation is
// one script, which Redis runs as a whole.
//
// Redis forgets: after a flush, a crash without persistence, or a failover to a replica that lagged, a second holder can be let
// in while the first one does not know yet. Fences still grow then (common.lua says how), so guarded writes hold.
package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// prefix begins every key.
const prefix = "{holdfast:lock}:"

var (
	//go:embed common.lua
	common string
	//go:embed enter.lua
	enterLua string
	//go:embed look.lua
	lookLua string
	//go:embed advance.lua
	advanceLua string
	//go:embed touch.lua
	touchLua string
	//go:embed release.lua
	releaseLua string
	//go:embed leave.lua
	leaveLua string

	enter   = redis.NewScript(common + enterLua)
	look    = redis.NewScript(common + lookLua)
	advance = redis.NewScript(common + advanceLua)
	touch   = redis.NewScript(common + touchLua)
	release = redis.NewScript(common + releaseLua)
	leave   = redis.NewScript(common + leaveLua)
)

// Store implements [lock.Store].
type Store struct{ client *redis.Client }

// Open makes a store on the server that the URL (redis:// or rediss://) names. It connects when it is first used; the error is
// that of an address that cannot be read.
func Open(url string) (*Store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("the lock's Redis: %w", err)
	}
	options.MaxRetries, options.DialerRetries = -1, 1 // an error is the caller's to know of, and to decide about
	options.ContextTimeoutEnabled = true
	options.Protocol = 2           // servers before 6 know no other
	options.DisableIdentity = true // nor CLIENT SETINFO before 7.2
	return &Store{redis.NewClient(options)}, nil
}

// Name implements [lock.Store].
func (s *Store) Name() string { return "redis" }

// Close implements [lock.Store].
func (s *Store) Close() error { return s.client.Close() }

// run runs a script.
func (s *Store) run(ctx context.Context, script *redis.Script, arguments ...any) (any, error) {
	return script.Run(ctx, s.client, []string{prefix}, arguments...).Result()
}

// runAll runs a script once with each list of arguments, all in one round trip.
func (s *Store) runAll(ctx context.Context, script *redis.Script, lists [][]any) ([]*redis.Cmd, error) {
	answers := make([]*redis.Cmd, len(lists))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, arguments := range lists {
			run := script.EvalSha
			if i == 0 {
				run = script.Eval // brings the script: nobody could answer "unknown script" within a pipeline
			}
			answers[i] = run(ctx, p, []string{prefix}, arguments...)
		}
		return nil
	})
	return answers, err
}

// clock is what the next fence is not below, since Redis may have lost their counter.
func clock() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) }

func ms(d time.Duration) int64 { return d.Milliseconds() }

// errAnswer means that a script answered something else than it should: another program's keys under our prefix.
var errAnswer = errors.New("an answer that the script cannot give")

// list reads a list of n values.
func list(v any, n int) ([]any, error) {
	values, _ := v.([]any)
	if len(values) != n {
		return nil, errAnswer
	}
	return values, nil
}

// number reads what the scripts write with whole.
func number(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64) // 0 then, which no caller takes for a lease
	return n
}

func grant(fence, valid any) lock.Grant {
	return lock.Grant{Fence: number(fence), Valid: time.Duration(number(valid)) * time.Millisecond}
}

func handoff(key string, v any) (lock.Handoff, error) {
	parts, err := list(v, 5)
	if err != nil {
		return lock.Handoff{}, err
	}
	id, _ := parts[0].(string)
	process, _ := parts[1].(string)
	dead, _ := parts[4].(int64)
	return lock.Handoff{
		Ticket: lock.Ticket{Key: key, ID: id, Process: process}, Grant: grant(parts[2], parts[3]), Dead: int(dead),
	}, nil
}

// Enter implements [lock.Store].
func (s *Store) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	wait := 0
	if e.Wait {
		wait = 1
	}
	answer, err := s.run(ctx, enter, e.Key, e.ID, e.Process, ms(e.Live), ms(e.TTL), ms(e.MaxHold), e.MaxQueue, wait, clock())
	if err != nil {
		return lock.Entered{}, err
	}
	parts, err := list(answer, 4)
	if err != nil {
		return lock.Entered{}, err
	}
	state, _ := parts[0].(string)
	next, err := handoff(e.Key, parts[3])
	return lock.Entered{State: lock.State(state), Grant: grant(parts[1], parts[2]), Next: next}, err
}

// Beat implements [lock.Store].
func (s *Store) Beat(ctx context.Context, p lock.Process, live time.Duration) error {
	return s.client.Set(ctx, prefix+"p:"+p.ID, "1", live).Err()
}

// Look implements [lock.Store]. Each key is looked at by itself, all in one round trip.
func (s *Store) Look(ctx context.Context, tickets []lock.Ticket) ([]lock.Standing, error) {
	byKey := map[string][]any{}
	for _, t := range tickets {
		if byKey[t.Key] == nil {
			byKey[t.Key] = []any{t.Key}
		}
		byKey[t.Key] = append(byKey[t.Key], t.ID)
	}
	lists := slices.Collect(maps.Values(byKey))
	answers, err := s.runAll(ctx, look, lists)
	if err != nil {
		return nil, err
	}
	all := make([]lock.Standing, 0, len(tickets))
	for i, answer := range answers {
		parts, err := list(answer.Val(), 3)
		if err != nil {
			return nil, err
		}
		states, err := list(parts[0], len(lists[i])-1)
		if err != nil {
			return nil, err
		}
		key, _ := lists[i][0].(string)
		for j, state := range states {
			name, _ := state.(string)
			id, _ := lists[i][j+1].(string)
			all = append(all, lock.Standing{
				Ticket: lock.Ticket{Key: key, ID: id}, State: lock.State(name), Grant: grant(parts[1], parts[2]),
			})
		}
	}
	return all, nil
}

// Advance implements [lock.Store].
func (s *Store) Advance(ctx context.Context, key, process string) (lock.Handoff, error) {
	answer, err := s.run(ctx, advance, key, process, clock())
	if err != nil {
		return lock.Handoff{}, err
	}
	return handoff(key, answer)
}

// Touch implements [lock.Store]. Each lease is touched by itself, all in one round trip.
func (s *Store) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	lists := make([][]any, len(touches))
	for i, t := range touches {
		lists[i] = []any{t.Key, t.ID, ms(t.TTL)}
	}
	answers, err := s.runAll(ctx, touch, lists)
	if err != nil {
		return nil, err
	}
	valid := make(map[string]time.Duration, len(touches))
	for i, answer := range answers {
		if n := number(answer.Val()); n > 0 {
			valid[touches[i].ID] = time.Duration(n) * time.Millisecond
		}
	}
	return valid, nil
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	answer, err := s.run(ctx, release, t.Key, t.ID, t.Process, clock())
	if err != nil {
		return lock.Released{}, err
	}
	parts, err := list(answer, 2)
	if err != nil {
		return lock.Released{}, err
	}
	next, err := handoff(t.Key, parts[1])
	return lock.Released{Owner: parts[0] == "owner", Next: next}, err
}

// Leave implements [lock.Store].
func (s *Store) Leave(ctx context.Context, t lock.Ticket) (lock.Handoff, error) {
	answer, err := s.run(ctx, leave, t.Key, t.ID, t.Process, clock())
	if err != nil {
		return lock.Handoff{}, err
	}
	return handoff(t.Key, answer)
}

// Sweep implements [lock.Store]: everything in Redis expires by itself.
func (s *Store) Sweep(context.Context) error { return nil }
