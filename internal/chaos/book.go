package chaos

import (
	"sync"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// book is what the clients remember: what they asked for, and what they were told. Nothing in it comes from the
// service's database.
type book struct {
	mu       sync.Mutex
	requests map[string]*request // by idempotency key
	told     map[string]*told    // by action
	broken   []string            // answers that contradict an earlier one
}

// request is what was asked for under one key.
type request struct {
	who, errand string
	action      string          // the action that it became
	refused     paidaction.Code // or why it was refused
}

// told is what somebody was told about an action.
type told struct {
	who    *person
	secret string
	last   action
	paid   bool // they were told so at least once
}

func newBook() *book { return &book{requests: map[string]*request{}, told: map[string]*told{}} }

// asks records a request before it is sent.
func (b *book) asks(who *person, errand, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[key] = &request{who: who.name, errand: errand}
}

// refused records a refusal.
func (b *book) refused(key string, code paidaction.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[key].refused = code
}

// answered records the action that a request became.
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

// saw records how an action was shown.
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

// unended are the actions that may have moved since they were last shown; a failed one moves when a next attempt
// begins.
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

// counts are the numbers of known actions, by the state last shown.
func (b *book) counts() map[paidaction.State]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[paidaction.State]int{}
	for _, t := range b.told {
		n[t.last.State]++
	}
	return n
}
