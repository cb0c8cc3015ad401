package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
)

// wantReady waits until /readyz reports these parts: for each the beginning of its problem, or "" if it is ready.
func (s *server) wantReady(want map[string]string) {
	s.t.Helper()
	var last string
	defer func() {
		if s.t.Failed() {
			s.t.Log(last)
		}
	}()
	s.await(fmt.Sprintf("/readyz with %v", want), func() bool {
		status, body := s.get("/readyz")
		last = body
		var answer readyAnswer
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			s.t.Fatal(err)
		}
		all := true
		for name, problem := range want {
			part, ok := answer.Parts[name]
			if !ok || part.Ready != (problem == "") || !strings.HasPrefix(part.Problem, problem) {
				return false
			}
			all = all && part.Ready
		}
		if len(answer.Parts) != len(want) || answer.Ready != all || (status == http.StatusOK) != all || !all && status != http.StatusServiceUnavailable {
			s.t.Errorf("%d %s, want %v", status, body, want)
		}
		return true
	})
	if strings.Contains(last, "localhost") || strings.Contains(last, "127.0.0.1") {
		s.t.Errorf("the answer tells of addresses: %s", last)
	}
}

func TestReadinessNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	node.Stop()
	pool := pgtest.New(t)
	door, env := databaseDoor(t, settings(pool, setting))
	s := serve(t, env) // a node that is down does not keep the service from starting
	unreachable, closed := "It cannot be reached.", "The node's streams are not open"
	s.wantReady(map[string]string{"database": "", "migrations": "", "node sim": unreachable, "streams of sim": closed})
	ready := map[string]string{"database": "", "migrations": "", "node sim": "", "streams of sim": ""}
	node.Restart()
	s.wantReady(ready)

	with := func(part, problem string) map[string]string {
		want := map[string]string{}
		for name := range ready {
			want[name] = ""
		}
		want[part] = problem
		return want
	}
	node.Node.SetSynced(false)
	s.wantReady(with("node sim", "It is behind the chain, at height "))
	node.Node.SetSynced(true)
	node.SetGraph(false)
	s.wantReady(with("node sim", "It has not synced to the graph"))
	node.SetGraph(true)
	node.SetKeysend(true) // it was restarted with other settings
	s.wantReady(with("node sim", "It takes payments by keysend"))
	node.SetKeysend(false)
	node.Deny("/lnrpc.Lightning/GetInfo")
	s.wantReady(with("node sim", "It does not accept the macaroon."))
	node.Deny()
	s.wantReady(ready)

	if _, err := pool.Exec(t.Context(), `UPDATE schema_migrations SET version = version + 1`); err != nil {
		t.Fatal(err)
	}
	s.wantReady(with("migrations", "its schema is not current: it has version "))
	if _, err := pool.Exec(t.Context(), `UPDATE schema_migrations SET version = version - 1`); err != nil {
		t.Fatal(err)
	}
	s.wantReady(ready)

	door.shut()
	want := with("database", "It cannot be reached")
	want["migrations"] = "It cannot be reached"
	s.wantReady(want)
	if status, body := s.get("/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("the process lives, and /healthz says %d %q", status, body)
	}
	door.open()
	s.wantReady(ready)
}

// A database that was demoted answers every question, but is useless. One that takes writes again is used again, also by
// a process that only reads.
func TestADatabaseThatTakesNoWritesIsNotReady(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := serve(t, settings(pool, "HOLDFAST_ROLES=api"))
	s.wantReady(map[string]string{"database": "", "migrations": ""})
	name := pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()
	if _, err := pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	pgtest.Cut(t, pool)
	s.wantReady(map[string]string{"database": "It takes no writes", "migrations": ""})
	if _, err := pool.Exec(t.Context(), "ALTER DATABASE "+name+" RESET default_transaction_read_only"); err != nil {
		t.Fatal(err)
	}
	s.wantReady(map[string]string{"database": "", "migrations": ""})
}

// A database that keeps what it confirms when the process starts may do so no more later: its settings were changed, or
// another server has taken over.
func TestADatabaseThatForgetsIsNotReady(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	name := pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()
	set := func(mode string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET synchronous_commit = "+mode); err != nil {
			t.Fatal(err)
		}
		pgtest.Cut(t, pool)
	}
	set("on")
	s := serve(t, settings(pool, "HOLDFAST_ROLES=api", "HOLDFAST_DEVELOPMENT=0", "HOLDFAST_SECRET="+strings.Repeat("ab", 32)))
	s.wantReady(map[string]string{"database": "", "migrations": ""})
	for _, setting := range []string{"fsync", "full_page_writes"} { // of the whole server, whatever the database's own are
		var mode string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&mode); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(s.said(), `"setting":"`+setting+`"`) != (mode == "off") {
			t.Errorf("%s = %s:\n%s", setting, mode, s.said())
		}
	}
	for _, mode := range []string{"off", "on", "local", "remote_write"} {
		set(mode)
		problem := ""
		if mode == "off" || mode == "local" {
			problem = "It has synchronous_commit = " + mode
		}
		s.wantReady(map[string]string{"database": problem, "migrations": ""})
	}
}

// A node that only issues invoices finds no routes, and needs no graph.
func TestANodeThatOnlyIssuesNeedsNoGraph(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	node.SetGraph(false)
	serve(t, settings(pgtest.New(t), setting+";send=no")).wantReady(map[string]string{"database": "", "migrations": "", "node sim": "", "streams of sim": ""})
}

// A process answers for what it does: without the role it has no streams.
func TestReadinessIsOfTheProcess(t *testing.T) {
	t.Parallel()
	_, setting := newNode(t)
	serve(t, settings(pgtest.New(t), setting, "HOLDFAST_ROLES=api")).wantReady(map[string]string{"database": "", "migrations": "", "node sim": ""})
}

// One unreachable node of several is reported, but the process stays ready: otherwise it would get no requests, and the
// other nodes would serve nobody either.
func TestOneNodeOfSeveralIsEnough(t *testing.T) {
	t.Parallel()
	away := map[string]bool{}
	part := func(kind, name string) readyPart {
		return readyPart{kind, name, func(context.Context) error {
			if away[name] {
				return notReady("It is away.")
			}
			return nil
		}}
	}
	now := time.Unix(1_800_000_000, 0)
	r := &readiness{now: func() time.Time { now = now.Add(time.Minute); return now }, found: func(context.Context, string, error) {},
		parts: []readyPart{part("database", "database"), part("node", "node one"), part("node", "node two"), part("streams", "streams of one"), part("streams", "streams of two")}}
	for _, c := range []struct {
		away  []string
		ready bool
	}{
		{nil, true}, {[]string{"node one", "streams of one"}, true}, {[]string{"node one", "streams of two"}, true},
		{[]string{"node one", "node two"}, false}, {[]string{"streams of one", "streams of two"}, false}, {[]string{"database"}, false},
	} {
		clear(away)
		for _, name := range c.away {
			away[name] = true
		}
		got := r.look(t.Context())
		if got.Ready != c.ready {
			t.Errorf("without %v: %+v", c.away, got)
		}
		for name, state := range got.Parts {
			if state.Ready == away[name] {
				t.Errorf("without %v: %s is told as %+v", c.away, name, state)
			}
		}
	}
}

// However many ask, and however often, the parts are asked once a second.
func TestReadinessIsAskedForOnceASecond(t *testing.T) {
	t.Parallel()
	now, asked := time.Unix(1_800_000_000, 0), 0
	r := &readiness{now: func() time.Time { return now }, reuse: readyFor, found: func(context.Context, string, error) {},
		parts: []readyPart{{"part", "part", func(context.Context) error { asked++; return notReady("Not yet.") }}}}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got := r.look(t.Context()); got.Ready || got.Parts["part"].Problem != "Not yet." {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if now = now.Add(readyFor - 1); r.look(t.Context()).Ready || asked != 1 {
		t.Errorf("asked %d times within a second", asked)
	}
	now = now.Add(1)
	if r.look(t.Context()); asked != 2 {
		t.Errorf("asked %d times, a second later", asked)
	}
}

// door is a proxy to the database that can be shut.
type door struct {
	to string

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// databaseDoor puts a door in front of the database of these settings.
func databaseDoor(t *testing.T, env []string) (*door, []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	d := &door{}
	for i, setting := range env {
		if dsn, ok := strings.CutPrefix(setting, "HOLDFAST_DATABASE_URL="); ok {
			u, err := url.Parse(dsn)
			if err != nil {
				t.Fatal(err)
			}
			d.to, u.Host = u.Host, listener.Addr().String()
			env[i] = "HOLDFAST_DATABASE_URL=" + u.String()
		}
	}
	go func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			d.enter(outside)
		}
	}()
	return d, env
}

func (d *door) enter(outside net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inside, err := net.Dial("tcp", d.to)
	if err != nil || d.closed {
		outside.Close()
		if inside != nil {
			inside.Close()
		}
		return
	}
	d.conns = append(d.conns, outside, inside)
	join(outside, inside)
}

// shut cuts every connection and lets nobody in.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close() // it may have ended by itself
	}
	d.closed, d.conns = true, nil
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = false
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	_, setting := newNode(t)
	s := serve(t, settings(pgtest.New(t), setting))
	// The height comes from a stream, a moment later.
	for _, name := range []string{"holdfast_node_height{node=\"sim\"}", "holdfast_node_hold_streams", "go_goroutines"} {
		s.await("/metrics with "+name, func() bool {
			status, body := s.get("/metrics")
			return status == http.StatusOK && strings.Contains(body, name)
		})
	}
}

// What only a person can mend is told in words that say how.
func TestWhatKeepsANodeFromBeingReachedIsNamed(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		lightning.ErrLocked:         "Its wallet is locked",
		lightning.ErrUntrusted:      "Its certificate is not the one that is trusted",
		lightning.ErrUnreachable:    "It cannot be reached.",
		lightning.ErrNotPermitted:   "It does not accept the macaroon.",
		errors.New("something new"): "It cannot be reached, or does not answer as it should",
	} {
		if said := problem(fmt.Errorf("lightning node alice: GetInfo: %w: 127.0.0.1", err)); !strings.HasPrefix(said, want) || strings.Contains(said, "127") {
			t.Errorf("%v: %s", err, said)
		}
	}
}
