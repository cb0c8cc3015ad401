package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// The environment that makes the test's program another process, which sends and tracks until its input ends: the database, the
// socket of the nodes, and their names.
const (
	childVariable  = "HOLDFAST_RELAYTEST_CHILD"
	socketVariable = "HOLDFAST_RELAYTEST_SOCKET"
	namesVariable  = "HOLDFAST_RELAYTEST_NODES"
)

// placesEach is how many payments such a process has at each node at most.
const placesEach = 2

// told is what such a process says in the end.
type told struct {
	Leased int    // places taken, one after the other
	Most   int    // at the same time
	Heap   uint64 // bytes of living and dead objects, at most
}

// counted are leases on so many places at each node. They note what the process needs while it has some.
type counted struct {
	mu     sync.Mutex
	places map[string]chan struct{}
	used   int
	told   told
}

func newCounted(places int, nodes ...string) *counted {
	c := &counted{places: map[string]chan struct{}{}}
	for _, n := range nodes {
		c.places[n] = make(chan struct{}, places)
	}
	return c
}

func (c *counted) Lease(ctx context.Context, node string) (relay.Lease, error) {
	select {
	case c.places[node] <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used++
	c.told.Leased++
	c.told.Most = max(c.told.Most, c.used)
	c.told.Heap = max(c.told.Heap, heap[0].Value.Uint64())
	return countedLease{c, c.places[node]}, nil
}

type countedLease struct {
	*counted
	place chan struct{}
}

func (countedLease) Fence() int64 { return 1 }

func (l countedLease) Release(context.Context, relay.Blame) {
	l.mu.Lock()
	l.used--
	l.mu.Unlock()
	<-l.place
}

// work is the other process. It returns the exit code.
func work() int {
	leases := newCounted(placesEach, strings.Fields(os.Getenv(namesVariable))...)
	if err := workWith(leases); err != nil {
		fmt.Fprintln(os.Stderr, "another process:", err)
		return 1
	}
	return 0
}

func workWith(leases *counted) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	database, err := pgxpool.New(ctx, os.Getenv(childVariable))
	if err != nil {
		return err
	}
	defer database.Close()
	conn, err := rpc.Dial("unix", os.Getenv(socketVariable))
	if err != nil {
		return err
	}
	defer conn.Close()
	nodes := farNodes{conn, strings.Fields(os.Getenv(namesVariable))}
	r, engine, err := enginetest.Join(database, nodes, leases, relay.Settings{Poll: 200 * time.Millisecond, Pause: time.Second})
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	if err := r.Run(ctx, engine.Advance); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(leases.told)
}

// process is another process that works.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out strings.Builder
}

// spawn starts another process on the world's database and nodes. It is ended with the test if not before.
func (b *bundle) spawn(socket string) *process {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(b.Ctx, program)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+b.Pool.Config().ConnString(), socketVariable+"="+socket,
		namesVariable+"="+strings.Join(b.Nodes.Names(), " "))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, os.Stderr
	in, err := p.cmd.StdinPipe()
	if err := errors.Join(err, p.cmd.Start()); err != nil {
		b.Fatal(err)
	}
	p.in = in
	b.Cleanup(func() { _ = in.Close(); _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

// end waits for the process to stop, which it does once its input is closed, and returns what it tells.
func (p *process) end(t *testing.T) (said told) {
	t.Helper()
	if err := errors.Join(p.cmd.Wait(), json.Unmarshal([]byte(p.out.String()), &said)); err != nil {
		t.Fatal(err)
	}
	return said
}
