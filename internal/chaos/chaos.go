// Package chaos runs the real stack under load while its parts are killed, and then checks whether anything was lost.
// Each of the service's processes, PostgreSQL, the Lightning nodes and the block chain dies by SIGKILL at random
// moments, and is started again. The clients are honest: they repeat what was not answered, under the same key, and
// remember what they were told.
package chaos

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
)

// Options say how long and how hard.
type Options struct {
	Duration time.Duration // duration of load and kills, without setting up and draining
	Seed     uint64        // seeds the kills and the requests
	Every    time.Duration // mean time between two kills; default 4.5 s
	Out      io.Writer     // progress and findings, for people
}

// Stack is the stack to torment. Its service is started by this package, as several processes on one database. All
// waiting times are set short. The caller says where it lies.
func Stack() stack.Options {
	return stack.Options{WithoutService: true, BlockEvery: 20 * time.Second, Environment: []string{
		"HOLDFAST_INVOICE_EXPIRY=30s", "HOLDFAST_DATABASE_POOL=10", "HOLDFAST_RELAY_SEND_WINDOW=3s", "HOLDFAST_RELAY_AUDIT=1s",
	}}
}

// limit is how soon the API must serve again after a kill of the service or of the database.
const limit = 2 * time.Second

const (
	readyPatience = time.Minute
	setUpPatience = 2 * time.Minute
	drainPatience = 4 * time.Minute
	tellEvery     = 10 * time.Second
)

// run is one run.
type run struct {
	stack   *stack.Stack
	fleet   *fleet
	crowd   *crowd
	line    *line
	options Options
	begun   time.Time
	ours    oblivion // for the service's nodes
	payers  oblivion
}

// Run torments a stack that was started with Stack's options, and judges it. An error means that this could not be
// tried. When Run returns, no process of the service runs; the rest of the stack does.
func Run(ctx context.Context, s *stack.Stack, o Options) (*Summary, error) {
	if o.Every <= 0 {
		o.Every = 4500 * time.Millisecond
	}
	f, err := assemble(s)
	if err != nil {
		return nil, err
	}
	line := newLine(f.urls)
	r := &run{stack: s, fleet: f, line: line, crowd: newCrowd(s, line), options: o, ours: oblivion{}, payers: oblivion{}}
	living, end := context.WithCancel(ctx)
	var lives sync.WaitGroup
	for _, p := range f.parts {
		lives.Go(func() { p.live(living) })
	}
	defer func() {
		end()
		lives.Wait()
		for _, p := range f.parts {
			if p.class == services {
				p.kill()
			}
		}
	}()
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	r.torment(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r.judge(ctx)
}

func (r *run) tell(format string, args ...any) { fmt.Fprintf(r.options.Out, format+"\n", args...) }

func (r *run) setUp(ctx context.Context) error {
	ready, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	if err := r.fleet.awaitIdle(ready); err != nil {
		return err
	}
	signingUp, cancel := context.WithTimeout(ctx, setUpPatience)
	defer cancel()
	if err := r.crowd.setUp(signingUp); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return nil
}

// torment lets the crowd work while the killer kills, and then lets everything come to its end. It returns when that
// has happened, or has taken too long.
func (r *run) torment(ctx context.Context) {
	r.begun = time.Now()
	raging, calm := context.WithTimeout(ctx, r.options.Duration)
	defer calm()
	bustling, enough := context.WithCancel(ctx)
	defer enough()
	var all sync.WaitGroup
	all.Go(func() { newKiller(r.options.Seed, r.options.Every, r.fleet.parts).rage(raging, r.fleet.parts) })
	all.Go(func() { r.crowd.bustle(bustling, raging, r.options.Seed) })
	all.Go(func() { r.progress(bustling) })
	<-raging.Done()
	close(r.crowd.closing)
	r.tell("Nobody asks for anything more; waiting until nothing is open.")
	r.drain(ctx)
	enough()
	all.Wait()
	r.crowd.lookAgain(ctx)
}

// drain waits until every part serves, everybody is answered, and nothing is open, including at the payer's node.
func (r *run) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	if err := r.fleet.awaitIdle(ctx); err != nil {
		r.tell("%v", err)
	}
	for wait(ctx, time.Second) == nil {
		u, err := r.unended(ctx)
		if err != nil || len(u.stuck) > 0 || u.owed > 0 || r.crowd.book.waiting() > 0 {
			continue
		}
		if n, err := r.paying(ctx); err == nil && n == 0 {
			return
		}
	}
}

// judge compares all accounts of what happened with each other.
func (r *run) judge(ctx context.Context) (*Summary, error) {
	s := r.summary()
	f, err := r.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather what there is: %w", err)
	}
	u, err := r.unended(ctx)
	if err != nil {
		return nil, fmt.Errorf("gather what is open: %w", err)
	}
	differences := r.crowd.book.compare(f)
	broken, err := r.reconcile(ctx)
	if err != nil {
		return nil, err
	}
	differences = append(differences, broken...)
	said, err := r.logs()
	if err != nil {
		return nil, err
	}
	differences = append(differences, said...)
	s.Actions, s.Differences, s.Stuck, s.Forgotten = len(f.records), len(differences), len(u.stuck), len(u.forgotten)
	for _, d := range differences {
		r.tell("Difference: %s", d)
	}
	for _, d := range u.stuck {
		r.tell("Stuck: %s", d)
	}
	for _, d := range u.forgotten {
		r.tell("Forgotten by LND, which calls it under way and has it in no channel: %s", d)
	}
	return s, nil
}
