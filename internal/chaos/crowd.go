package chaos

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// crowd is the clients of the service. They are honest: they repeat requests until they are answered, and pay what they
// mean to pay.
type crowd struct {
	book    *book
	line    *line
	network *devnet.Network

	zappers []*person // they sign in, buy credits, and pay for what others have written
	savers  []*person // they receive, and withdraw
	nobody  *person   // not signed in

	author  *writer   // without a wallet
	writers []*writer // with one
	threads map[*person]string

	turn    chan struct{} // the turn to pay
	closing chan struct{} // closed when unpaid invoices are to be given up
	texts   atomic.Int64  // how many were written
}

// writer is somebody with a post.
type writer struct {
	*person
	post string
}

func newCrowd(s *stack.Stack, l *line) *crowd {
	return &crowd{book: newBook(), line: l, network: s.Network, nobody: &person{name: "nobody", line: l}, threads: map[*person]string{},
		turn: make(chan struct{}, 1), closing: make(chan struct{})}
}

const (
	zappers = 4
	savers  = 2

	// savings is what each saver begins with, in msat: enough for withdrawals of a few sats until the end.
	savings = 200_000_000
)

// setUp signs everybody up before anything is killed, because these steps cannot be repeated.
func (c *crowd) setUp(ctx context.Context) (err error) {
	if c.author, err = c.signUpWriter(ctx, "author", nil); err != nil {
		return err
	}
	receiver := c.network.Node(devnet.Receiver)
	macaroon, err := os.ReadFile(receiver.InvoiceMacaroon())
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(receiver.TLSCert())
	if err != nil {
		return err
	}
	for name, wallet := range map[string]map[string]any{
		"by_address": {"lightningAddress": c.network.LightningAddress()},
		"by_node": {"lndRest": map[string]any{
			"url": "https://" + receiver.REST(), "macaroon": hex.EncodeToString(macaroon), "certificate": string(certificate)}},
	} {
		w, err := c.signUpWriter(ctx, name, wallet)
		if err != nil {
			return err
		}
		c.writers = append(c.writers, w)
	}
	for i := range savers {
		p, err := c.signUp(ctx, fmt.Sprint("saver_", i+1))
		if err != nil {
			return err
		}
		if err := c.now(ctx, c.nobody, receive, map[string]any{"user": p.id, "msat": fmt.Sprint(savings)}); err != nil {
			return err
		}
		c.savers = append(c.savers, p)
	}
	for i := range zappers {
		w, err := c.signUpWriter(ctx, fmt.Sprint("zapper_", i+1), nil)
		if err != nil {
			return err
		}
		c.zappers, c.threads[w.person] = append(c.zappers, w.person), w.post
	}
	return nil
}

func (c *crowd) signUp(ctx context.Context, name string) (*person, error) {
	p := &person{name: name, line: c.line}
	var made struct{ Key string }
	if err := p.do(ctx, &made, `mutation ($name: String!) { signUp(name: $name) { key } }`, map[string]any{"name": name}); err != nil {
		return nil, fmt.Errorf("sign up %s: %w", name, err)
	}
	p.key = made.Key
	var me struct{ User struct{ ID string } }
	err := p.do(ctx, &me, `{ me { user { id } } }`, nil)
	p.id = me.User.ID
	return p, err
}

// signUpWriter makes somebody with a post, and with a wallet unless it is nil.
func (c *crowd) signUpWriter(ctx context.Context, name string, wallet map[string]any) (*writer, error) {
	p, err := c.signUp(ctx, name)
	if err != nil {
		return nil, err
	}
	if wallet != nil {
		var saved struct{ ID string }
		err := p.do(ctx, &saved, `mutation ($settings: WalletSettings!) { walletSave(settings: $settings) { id } }`, map[string]any{"settings": wallet})
		if err != nil {
			return nil, fmt.Errorf("save the wallet of %s: %w", name, err)
		}
	}
	if err := c.now(ctx, p, post, map[string]any{"title": "Written by " + name}); err != nil {
		return nil, err
	}
	var mine struct{ Nodes []struct{ ID string } }
	err = p.do(ctx, &mine, `{ items(first: 1) { nodes { id } } }`, nil)
	if err == nil && len(mine.Nodes) == 0 {
		err = fmt.Errorf("the post of %s is not to be seen", name)
	}
	if err != nil {
		return nil, err
	}
	return &writer{p, mine.Nodes[0].ID}, nil
}

// now runs an errand that must succeed.
func (c *crowd) now(ctx context.Context, p *person, mutation string, variables map[string]any) error {
	e := errand{name: "setting up", mutation: mutation, manner: pays}
	last, err := c.run(ctx, p, e, variables)
	if err == nil && last.State != paidaction.Paid {
		err = fmt.Errorf("action %s of %s is %s", last.ID, p.name, last.State)
	}
	return err
}

// thinkTime is the longest time between two errands of one client.
const thinkTime = 3 * time.Second

// openErrands is how many errands one client has open at once, at most.
const openErrands = 8

// bustle has everybody run errands until asking ends, and returns once all of these have ended, or ctx has.
func (c *crowd) bustle(ctx, asking context.Context, seed uint64) {
	var all sync.WaitGroup
	clients := append(append([]*person{c.nobody, c.nobody}, c.zappers...), c.savers...)
	for i, p := range clients {
		all.Go(func() { c.client(ctx, asking, p, rand.New(rand.NewPCG(seed, uint64(i)+1))) })
	}
	all.Wait()
}

func (c *crowd) client(ctx, asking context.Context, p *person, r *rand.Rand) {
	var open sync.WaitGroup
	defer open.Wait()
	errands := newDeck(r, c.errandsOf(p))
	slots := make(chan struct{}, openErrands)
	for wait(asking, time.Duration(r.Int64N(int64(thinkTime)))) == nil {
		e := errands.deal()
		variables, ok := e.variables(asking, c, p, r)
		if !ok {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-asking.Done():
			return
		}
		open.Go(func() {
			_, _ = c.run(ctx, p, e, variables) // the outcome is in the book
			<-slots
		})
	}
}

// lookAgain has everybody look at their actions that may have moved since the last look, and at following attempts.
func (c *crowd) lookAgain(ctx context.Context) {
	var all sync.WaitGroup
	slots := make(chan struct{}, openErrands)
	for _, t := range c.book.unended() {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			a, err := t.who.look(ctx, t.last.ID, t.secret)
			for err == nil {
				c.book.saw(t.who, a)
				if a.State != paidaction.Retrying {
					return
				}
				a, err = t.who.look(ctx, a.Successor, t.secret)
			}
		})
	}
	all.Wait()
}
