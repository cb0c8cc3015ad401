package chaos

import (
	"sync"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// book is what the clients remember: what they have asked for, and what they were told. Nothing in it comes from the service's
// database.
type book struct {
	mu       sync.Mutex
	requests map[string]*request // by idempotency key
	told     map[string]*told    // by action
	broken   []string            // answers that contradict an earlier one
}

// request is something that was asked for under a key.
type request struct {
	who, errand string
	action      string          // what came of it
	refused     paidaction.Code // or why nothing did
}

// told is what somebody was told of an action.
type told struct {
	who    *person
	secret string
	last   action
	paid   bool // they were told so, once at least
}

func newBook() *book { return &book{requests: map[string]*request{}, told: map[string]*told{}} }

// asks notes a request before it is sent.
func (b *book) asks(who *person, errand, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[key] = &request{who: who.name, errand: errand}
}

// refused notes the answer no.
func (b *book) refused(key string, code paidaction.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[key].refused = code
}

// answered notes the action that a request has become.
func (b *book) answered(who *person, key string, a action) {
	b.mu.Lock()
	b.requests[key].action = a.ID
	b.mu.Unlock()
	b.saw(who, a)
}

// waiting is how many requests have no answer yet.
func (b *book) waiting() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.requests {
		if q.action == "" && q.refused == "" {
			n++
		}
	}
	return n
}

// saw notes how an action was shown.
func (b *book) saw(who *person, a action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.told[a.ID]
	if t == nil {
		t = &told{who: who}
		b.told[a.ID] = t
	}
	if a.Secret != "" {
		t.secret = a.Secret
	}
	if t.paid && a.State != paidaction.Paid {
		b.broken = append(b.broken, "action "+a.ID+" was shown as PAID, and later as "+string(a.State))
	}
	t.last, t.paid = a, t.paid || a.State == paidaction.Paid
}

// unended are the actions that may have moved since they were shown last; one that has failed, by a next attempt.
func (b *book) unended() (all []told) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.told {
		if t.last.State != paidaction.Paid && t.last.State != paidaction.Retrying {
			all = append(all, *t)
		}
	}
	return all
}

// counts are the actions that were told of, by how they were shown last.
func (b *book) counts() map[paidaction.State]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[paidaction.State]int{}
	for _, t := range b.told {
		n[t.last.State]++
	}
	return n
}
