package chaos

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// manner is what a payer does with an invoice.
type manner int

const (
	pays    manner = iota
	leaves         // does not pay
	cancels        // cancels it
	returns        // lets it expire, tries again, and pays then
)

// errand is something that a client wants to do.
type errand struct {
	name      string
	weight    int
	mutation  string
	method    paidaction.Method // empty: the service chooses
	manner    manner
	variables variables
}

const (
	buy      = `mutation ($credits: Sats!, $key: String, $method: PaymentMethod) { buyCredits(credits: $credits, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
	zap      = `mutation ($item: ID!, $sats: Sats!, $key: String, $method: PaymentMethod) { zap(item: $item, sats: $sats, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
	donate   = `mutation ($sats: Sats!, $key: String, $method: PaymentMethod) { donate(sats: $sats, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
	post     = `mutation ($title: String!, $key: String, $method: PaymentMethod) { createPost(title: $title, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
	comment  = `mutation ($parent: ID!, $body: String!, $key: String, $method: PaymentMethod) { createComment(parent: $parent, body: $body, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
	receive  = `mutation ($user: ID!, $msat: Msat!, $key: String, $method: PaymentMethod) { receive(user: $user, msat: $msat, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
	withdraw = `mutation ($to: String!, $sats: Sats, $fee: Sats!, $key: String, $method: PaymentMethod) { withdraw(to: $to, sats: $sats, maxFeeSats: $fee, idempotencyKey: $key, paymentMethod: $method)` + fields + ` }`
)

// What each sort of person asks for, with weights.
var (
	ofZappers = []errand{
		{"credits bought", 4, buy, "", pays, some("credits", 100, 400)},
		{"zap from credits", 8, zap, paidaction.FeeCredit, pays, zapOf(toAuthor)},
		{"zap, optimistic", 6, zap, paidaction.Optimistic, pays, zapOf(toAuthor)},
		{"zap, wrapped", 6, zap, paidaction.P2P, pays, zapOf(toWriter)},
		{"zap, however", 2, zap, "", pays, zapOf(toWriter)},
		{"donation", 4, donate, paidaction.Pessimistic, pays, some("sats", 1, 50)},
		{"comment", 3, comment, paidaction.Optimistic, pays, commenting},
		{"comment from credits", 2, comment, paidaction.FeeCredit, pays, commenting},
		{"zap, never paid", 1, zap, paidaction.Optimistic, leaves, zapOf(toAuthor)},
		{"zap, wrapped, never paid", 1, zap, paidaction.P2P, leaves, zapOf(toWriter)},
		{"zap, cancelled", 1, zap, paidaction.Optimistic, cancels, zapOf(toAuthor)},
		{"donation, cancelled", 1, donate, paidaction.Pessimistic, cancels, some("sats", 1, 50)},
		{"zap, expired and tried again", 2, zap, paidaction.Optimistic, returns, zapOf(toAuthor)},
		{"donation, expired and tried again", 1, donate, paidaction.Pessimistic, returns, some("sats", 1, 50)},
	}
	ofSavers = []errand{
		{"withdrawal to an invoice", 4, withdraw, "", pays, toInvoice},
		{"withdrawal to an address", 4, withdraw, "", pays, toAddress},
		{"zap from sats", 2, zap, paidaction.RewardSats, pays, zapOf(toAuthor)},
	}
	ofNobody = []errand{
		{"post, anonymous", 3, post, "", pays, posting},
		{"zap, anonymous", 3, zap, paidaction.Pessimistic, pays, zapOf(toAuthor)},
		{"zap, wrapped, anonymous", 3, zap, paidaction.P2P, pays, zapOf(toWriter)},
		{"sent to a balance", 3, receive, paidaction.Pessimistic, pays, toSaver},
		{"sent to a wallet", 3, receive, paidaction.P2P, pays, toWallet},
		{"post, anonymous, never paid", 1, post, "", leaves, posting},
	}
)

// errandsOf are the errands of a person, each as often as its weight.
func (c *crowd) errandsOf(p *person) (all []errand) {
	table := ofZappers
	switch {
	case p == c.nobody:
		table = ofNobody
	case slices.Contains(c.savers, p):
		table = ofSavers
	}
	for _, e := range table {
		all = append(all, slices.Repeat([]errand{e}, e.weight)...)
	}
	return all
}

// variables returns the variables of an errand's mutation; false if it cannot be run now.
type variables func(ctx context.Context, c *crowd, p *person, r *rand.Rand) (map[string]any, bool)

// some is an amount in sats, at least least and less than most.
func some(name string, least, most int) variables {
	return func(_ context.Context, _ *crowd, _ *person, r *rand.Rand) (map[string]any, bool) {
		return map[string]any{name: least + r.IntN(most-least)}, true
	}
}

func zapOf(to func(*crowd, *rand.Rand) *writer) variables {
	return func(_ context.Context, c *crowd, _ *person, r *rand.Rand) (map[string]any, bool) {
		return map[string]any{"item": to(c, r).post, "sats": 10 + r.IntN(90)}, true
	}
}

func toAuthor(c *crowd, _ *rand.Rand) *writer { return c.author }

func toWriter(c *crowd, r *rand.Rand) *writer { return c.writers[r.IntN(len(c.writers))] }

// commenting is on the person's own post: elsewhere each comment makes the next one more expensive.
func commenting(_ context.Context, c *crowd, p *person, _ *rand.Rand) (map[string]any, bool) {
	return map[string]any{"parent": c.threads[p], "body": fmt.Sprint("Comment ", c.texts.Add(1))}, true
}

func posting(_ context.Context, c *crowd, _ *person, _ *rand.Rand) (map[string]any, bool) {
	return map[string]any{"title": fmt.Sprint("Post ", c.texts.Add(1))}, true
}

func toSaver(_ context.Context, c *crowd, _ *person, r *rand.Rand) (map[string]any, bool) {
	return map[string]any{"user": c.savers[r.IntN(len(c.savers))].id, "msat": fmt.Sprint(10_000 + r.IntN(90_000))}, true
}

func toWallet(_ context.Context, c *crowd, _ *person, r *rand.Rand) (map[string]any, bool) {
	return map[string]any{"user": toWriter(c, r).id, "msat": fmt.Sprint(10_000 + r.IntN(90_000))}, true
}

// routing is the highest fee of a withdrawal, in sats.
const routing = 10

// toInvoice has the receiver's node issue an invoice; while it is down there is none.
func toInvoice(ctx context.Context, c *crowd, _ *person, r *rand.Rand) (map[string]any, bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	bolt11, err := c.network.Node(devnet.Receiver).Invoice(ctx, int64(10_000+r.IntN(90_000)), "withdrawn")
	return map[string]any{"to": bolt11, "fee": routing}, err == nil
}

func toAddress(_ context.Context, c *crowd, _ *person, r *rand.Rand) (map[string]any, bool) {
	return map[string]any{"to": c.network.LightningAddress(), "sats": 10 + r.IntN(90), "fee": routing}, true
}

// run asks for an action until there is an answer, and follows it to its end.
func (c *crowd) run(ctx context.Context, p *person, e errand, variables map[string]any) (action, error) {
	key := crand.Text() // 130 bits, as the anonymous need
	variables["key"] = key
	if e.method != "" {
		variables["method"] = e.method
	}
	c.book.asks(p, e.name, key)
	var a action
	err := p.do(ctx, &a, e.mutation, variables)
	if refused := (*apiclient.Refusal)(nil); errors.As(err, &refused) {
		c.book.refused(key, refused.Code)
	}
	if err != nil {
		return a, err
	}
	c.book.answered(p, key, a)
	return c.follow(ctx, p, a, e.manner)
}
