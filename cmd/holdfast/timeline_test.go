package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/timeline"
)

// The database is restored under a running service. Nobody can pay, and people can read, until an operator has accepted
// that.
func TestNobodyPaysAfterARestoreUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, node := newNode(t)
	env := settings(pool, node)
	alice := bearer(keyOf(t, env, "alice"))
	restore := pgtest.Backup(t, pool)
	s := serve(t, env)
	buy := func() string { return s.graphql(alice, "mutation { donate(sats: 5) { state } }", nil) }
	if answer := buy(); !strings.Contains(answer, "PENDING") {
		t.Fatalf("before: %s", answer)
	}
	metric := func() bool {
		_, all := s.get("/metrics")
		return strings.Contains(all, "\nholdfast_timeline_doubted 1\n")
	}
	if metric() {
		t.Error("it is doubted from the start")
	}
	restore()
	var answer string
	s.await("an answer from the database that was put back", func() bool {
		answer = buy()
		return strings.Contains(answer, "TRY_AGAIN") && strings.Contains(answer, "books")
	})
	if !metric() {
		t.Error("no metric shows it")
	}
	if answer := s.graphql(alice, "{ me { creditsMsat } }", nil); strings.Contains(answer, "errors") {
		t.Errorf("nor can anybody read: %s", answer)
	}

	var said string
	list := func(arguments ...string) (known []timeline.Known) {
		t.Helper()
		var code int
		var out string
		code, out, said = command(t, env, append([]string{"timeline"}, arguments...)...)
		if err := json.Unmarshal([]byte(out), &known); err != nil || code != exitOK {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
		}
		return known
	}
	if known := list(); len(known) != 2 || known[0].Here || known[0].Accepted == nil || !known[1].Here || known[1].Accepted != nil || known[0].Doubted || !known[1].Doubted {
		t.Errorf("%+v", known)
	}
	if known := list("accept"); len(known) != 2 || known[1].Accepted == nil || known[1].Doubted || strings.Contains(said, "run holdfast timeline accept") {
		t.Errorf("accepted: %+v\n%s", known, said)
	}
	s.await("payments to go on", func() bool { return strings.Contains(buy(), "PENDING") })
	if metric() {
		t.Error("the metric still shows it")
	}
	if known := list("doubt"); known[1].Accepted != nil || !known[1].Doubted {
		t.Errorf("doubted: %+v", known)
	}
	if list(); !strings.Contains(said, "is doubted, since") || !strings.Contains(said, "somebody ran holdfast timeline doubt") {
		t.Errorf("the next command does not say that it may be by hand: %s", said)
	}
	s.await("payments to stop", func() bool { return strings.Contains(buy(), "TRY_AGAIN") })
}
