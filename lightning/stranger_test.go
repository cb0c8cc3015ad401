package lightning_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node that is known by another key than the one that it answers with is asked for no invoice. Whoever gives up while that
// is found out has learned nothing of the node.
func TestNoInvoiceIsAskedOfAStranger(t *testing.T) {
	t.Parallel()
	alice, _, _ := fixture(t)
	bob := lndtest.New(t, simnode.New("bob", time.Now)).Client()
	keys := map[string]string{}
	for _, c := range []*lightning.Client{alice, bob} { // connecting can take longer than a pool waits for an answer
		if err := eventually(t, func() (err error) { keys[c.Name()], err = c.PublicKey(t.Context()); return err }); err != nil {
			t.Fatal(err)
		}
	}
	issuer := func(ctx context.Context, known func(name, key string) error) (string, error) {
		t.Helper()
		nodes, err := lightning.NewNodes(alice, bob) // it asks afresh
		if err != nil {
			t.Fatal(err)
		}
		nodes.Known = func(_ context.Context, name, key string) error {
			if key != keys[name] {
				t.Errorf("%s answers with %q, want %q", name, key, keys[name])
			}
			return known(name, key)
		}
		return nodes.Issuer(ctx)
	}
	stranger := errors.New("another node answers under its name")
	for strange, want := range map[string]string{"": "alice", "alice": "bob", "bob": "alice"} {
		name, err := issuer(t.Context(), func(name, _ string) error {
			if name == strange {
				return stranger
			}
			return nil
		})
		if err != nil || name != want {
			t.Errorf("where %q is a stranger %q is asked, error %v", strange, name, err)
		}
	}
	if name, err := issuer(t.Context(), func(string, string) error { return stranger }); !errors.Is(err, stranger) ||
		!errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Errorf("%q is asked, error %v", name, err)
	}

	nodes, err := lightning.NewNodes(alice)
	if err != nil {
		t.Fatal(err)
	}
	nodes.StandStill() // what was learned is not forgotten
	ctx, giveUp := context.WithCancel(t.Context())
	nodes.Known = func(limited context.Context, _, _ string) error { giveUp(); return context.Cause(limited) }
	if name, err := nodes.Issuer(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%q is asked, error %v", name, err)
	}
	nodes.Known = func(context.Context, string, string) error { return nil }
	if name, err := nodes.Issuer(t.Context()); err != nil || name != "alice" {
		t.Errorf("%q is asked, error %v", name, err)
	}
}

// Who a node is was told once, and is asked again and again. While the database does not say it, or is too slow, the node
// issues invoices by the key that it was last known by. By another one, or after another node has answered, it issues none.
func TestAKeyThatWasKnownIsKnownWhileTheDatabaseIsSlow(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	keys := map[string]string{}
	for _, name := range []string{"alice", "bob"} {
		server.AnswerAs(name)
		if err := eventually(t, func() (err error) { keys[name], err = c.PublicKey(t.Context()); return err }); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := lightning.NewNodes(c)
	if err != nil {
		t.Fatal(err)
	}
	slow := context.DeadlineExceeded
	for _, step := range []struct {
		what     string
		answers  string
		register error
		issues   bool
	}{
		{"it was never known", "alice", slow, false},
		{"it is known", "alice", nil, true},
		{"that is not told this time", "alice", slow, true},
		{"nor the next time", "alice", slow, true},
		{"another node answers, and that is not told", "bob", slow, false},
		{"it answers again", "alice", slow, true},
		{"another node answers", "bob", paidaction.ErrAnotherNode, false},
		{"which may be the one from now on", "alice", slow, false},
		{"it is not", "alice", nil, true},
		{"it is", "alice", paidaction.ErrAnotherNode, false},
		{"and that is not told again", "alice", slow, false},
	} {
		nodes.Forget()
		server.AnswerAs(step.answers)
		nodes.Known = func(_ context.Context, name, key string) error {
			if name != "alice" || key != keys[step.answers] {
				t.Errorf("%s: %s is asked about by the key %s", step.what, name, key)
			}
			return step.register
		}
		name, err := nodes.Issuer(t.Context())
		if issues := err == nil && name == "alice"; issues != step.issues {
			t.Errorf("%s: %q issues, error %v", step.what, name, err)
		}
		if !step.issues && (!errors.Is(err, step.register) || !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable))) {
			t.Errorf("%s: %v", step.what, err)
		}
	}
}

// The database has a time of its own to say who the node is, whatever the node has taken of its.
func TestTheDatabasesTimeIsNotTheNodes(t *testing.T) {
	t.Parallel()
	c, _, node := fixture(t)
	var answered atomic.Pointer[time.Time]
	nodes, err := lightning.NewNodes(c)
	if err != nil {
		t.Fatal(err)
	}
	nodes.Known = func(ctx context.Context, _, _ string) error {
		end, bounded := ctx.Deadline()
		if least := answered.Load().Add(lightning.KnownTimeout); !bounded || end.Before(least) {
			t.Errorf("it ends at %s, bounded: %t, want %s or later", end, bounded, least)
		}
		return nil
	}
	err = eventually(t, func() error {
		node.After(simnode.MethodChain, func(paidaction.Hash) { answered.Store(new(time.Now())) })
		nodes.Forget()
		_, err := nodes.Issuer(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
