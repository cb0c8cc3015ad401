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

// Rates bound how often the same user, whatever their keys, or the same address without a key may ask, per second on average; ten seconds'
// worth may come at once. Paying, and what calls somebody else's server, is bounded besides. They hold for one process; 0 is no bound.
type Rates struct {
	Key           float64 // requests with the keys of one user
	KeyPaying     float64
	Address       float64 // requests without a key from one address
	AddressPaying float64
	WrongKeys     float64 // keys from one address that are not known
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
	// rateKept is how many askers are remembered. Who was forgotten begins with a full bucket: whoever wants that needs as many
	// accounts or networks.
	rateKept = 100_000
)

const codeRateLimit paidaction.Code = "RATE_LIMITED"

// meter counts one thing that askers do. The nil meter lets everything pass.
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

// of is the bucket of one asker.
func (m *meter) of(who string) *rate.Limiter {
	fresh := rate.NewLimiter(rate.Limit(m.perSecond), max(1, int(math.Ceil(m.perSecond*rateBurst))))
	if known, ok, _ := m.kept.PeekOrAdd(who, fresh); ok {
		m.kept.Get(who) // it was asked for just now
		return known
	}
	return fresh
}

// take refuses with RATE_LIMITED who has asked too often.
func (m *meter) take(who string, now time.Time) error {
	if m == nil || m.of(who).AllowN(now, 1) {
		return nil
	}
	return m.refusal()
}

func (m *meter) refusal() error {
	wait := int(math.Ceil(1 / m.perSecond))
	return &rateError{httpError{http.StatusTooManyRequests, paidaction.Errorf(codeRateLimit,
		"Too many requests in a short time. Nothing was done. Wait %d s and try again.", wait)}, wait}
}

// rateError says besides after how many seconds it is worth trying again.
type rateError struct {
	httpError
	wait int
}

func (e *rateError) Unwrap() error { return &e.httpError }

// retryAfter tells a client when to come again, if err is about that.
func retryAfter(h http.Header, err error) {
	var limited *rateError
	if errors.As(err, &limited) {
		h.Set("Retry-After", strconv.Itoa(limited.wait))
	}
}

// guesses counts the keys of each address that are not known. Whoever has a key that was good here before does not guess: they are let
// through whatever others at their address send.
type guesses struct {
	*meter
	good *lru.Cache[string, struct{}] // hashes of keys, to be looked up all the same
}

func newGuesses(perSecond float64) guesses {
	good, err := lru.New[string, struct{}](keysKept)
	if err != nil {
		panic(err) // the size is above zero
	}
	return guesses{newMeter(perSecond), good}
}

// mayTry refuses with RATE_LIMITED who has sent too many wrong keys, before this one is looked up.
func (g guesses) mayTry(hash []byte, client string, now time.Time) error {
	if g.meter == nil || g.good.Contains(string(hash)) || g.of(client).TokensAt(now) >= 1 {
		return nil
	}
	return g.refusal()
}

func (g guesses) right(hash []byte) { g.good.Add(string(hash), struct{}{}) }

func (g guesses) wrong(hash []byte, client string, now time.Time) {
	g.good.Remove(string(hash)) // it was revoked, or has expired
	_ = g.take(client, now)     // counted; whether the next one is looked up is asked then
}

// meters are those of one process.
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
		return m.key.take(s.who(), now)
	}
	return m.address.take(s.who(), now)
}

// paying counts something that costs money, or a call of somebody else's server.
func (m meters) paying(s *session, now time.Time) error {
	if s.user != nil {
		return m.keyPaying.take(s.who(), now)
	}
	return m.addressPaying.take(s.who(), now)
}
