package graph

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Rates limit how often one user (with any of their keys) or one address without a key may ask: on average per second,
// with ten seconds' worth allowed at once. What asks a node, calls somebody else's server, or is kept without being paid
// for has a further limit, as paying has. They hold for one process; 0 is no limit.
type Rates struct {
	Key           float64 // requests with the keys of one user
	KeyPaying     float64
	Address       float64 // requests without a key from one address
	AddressPaying float64
	WrongKeys     float64 // unknown keys from one address
}

func (r Rates) check() error {
	for _, v := range []float64{r.Key, r.KeyPaying, r.Address, r.AddressPaying, r.WrongKeys} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("graph: a rate must be at or above zero")
		}
	}
	return nil
}

const (
	rateBurst = 10 // seconds' worth that may come at once
	// rateKept is how many askers are remembered. One that was forgotten begins with a full bucket again; to exploit
	// that takes as many accounts or networks.
	rateKept = 100_000
)

const codeRateLimit paidaction.Code = "RATE_LIMITED"

// meter counts one thing that askers do. The nil meter has no limit.
type meter struct {
	perSecond float64
	kept      *lru.Cache[string, *rate.Limiter]
}

func newMeter(perSecond float64) *meter {
	if perSecond == 0 {
		return nil
	}
	kept, err := lru.New[string, *rate.Limiter](rateKept)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &meter{perSecond, kept}
}

// of returns the bucket of one asker.
func (m *meter) of(who string) *rate.Limiter {
	fresh := rate.NewLimiter(rate.Limit(m.perSecond), max(1, int(math.Ceil(m.perSecond*rateBurst))))
	if known, ok, _ := m.kept.PeekOrAdd(who, fresh); ok {
		m.kept.Get(who) // it was just used
		return known
	}
	return fresh
}

// take refuses an asker with RATE_LIMITED if they have asked too often. A request counts as so many, but as no more than
// may be made at once: it would be refused for ever.
func (m *meter) take(who string, counts int, now time.Time) error {
	if m == nil {
		return nil
	}
	asker := m.of(who)
	if counts = min(counts, asker.Burst()); asker.AllowN(now, counts) {
		return nil
	}
	return m.refusal(counts)
}

func (m *meter) refusal(counts int) error {
	wait := int(math.Ceil(float64(counts) / m.perSecond))
	return &rateError{httpError{http.StatusTooManyRequests, paidaction.Errorf(codeRateLimit,
		"Too many requests in a short time. Nothing was done. Wait %d s and try again.", wait)}, wait}
}

// rateError also says after how many seconds to try again.
type rateError struct {
	httpError
	wait int
}

func (e *rateError) Unwrap() error { return &e.httpError }

// retryAfter tells a client when to come again, if err says so.
func retryAfter(h http.Header, err error) {
	var limited *rateError
	if errors.As(err, &limited) {
		h.Set("Retry-After", strconv.Itoa(limited.wait))
	}
}

// guesses counts the unknown keys from each address. A key that was good here before is no guess: it is let through,
// whatever others at the same address send.
type guesses struct {
	*meter
	good *lru.Cache[string, struct{}] // hashes of keys that are always looked up
}

func newGuesses(perSecond float64) guesses {
	good, err := lru.New[string, struct{}](keysKept)
	if err != nil {
		panic(err) // the size is above zero
	}
	return guesses{newMeter(perSecond), good}
}

// mayTry refuses an address with RATE_LIMITED if it has sent too many wrong keys. It is called before a key is looked
// up.
func (g guesses) mayTry(hash []byte, client string, now time.Time) error {
	if g.meter == nil || g.good.Contains(string(hash)) || g.of(client).TokensAt(now) >= 1 {
		return nil
	}
	return g.refusal(1)
}

func (g guesses) right(hash []byte) { g.good.Add(string(hash), struct{}{}) }

func (g guesses) wrong(hash []byte, client string, now time.Time) {
	g.good.Remove(string(hash)) // it was revoked, or has expired
	_ = g.take(client, 1, now)  // only counted: mayTry decides about the next one
}

// meters are the meters of one process.
type meters struct {
	key, keyPaying, address, addressPaying *meter
	guesses                                guesses
}

func newMeters(r Rates) meters {
	return meters{newMeter(r.Key), newMeter(r.KeyPaying), newMeter(r.Address), newMeter(r.AddressPaying), newGuesses(r.WrongKeys)}
}

// asking counts a request of this session.
func (m meters) asking(s *session, now time.Time) error {
	if s.user != nil {
		return m.key.take(s.who(), 1, now)
	}
	return m.address.take(s.who(), 1, now)
}

// paying counts something that costs money, or costs us something: a call of a node or of somebody else's server, or a
// row to keep.
func (m meters) paying(s *session, now time.Time) error { return m.keeping(s, 0, now) }

// keptAsOne is how many bytes of text count like one more request.
const keptAsOne = 1024

// keeping counts like paying, and more if there is text. It is kept for ever, also where nothing is paid for it in the
// end, and the longest takes a thousand times as much room as none.
func (m meters) keeping(s *session, text int, now time.Time) error {
	counts := 1 + text/keptAsOne
	if s.user != nil {
		return m.keyPaying.take(s.who(), counts, now)
	}
	return m.addressPaying.take(s.who(), counts, now)
}
