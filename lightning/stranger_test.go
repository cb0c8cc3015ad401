package lightning_test

import (
	"context"
	"errors"
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
