package gather_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
)

// gate is an item that is under way until its end.
type gate struct {
	begun atomic.Bool
	end   chan struct{}
}

const patience = time.Second

// patient is a Group with two places. One of them is stuck.
type patient struct {
	*testing.T
	*gather.Group[*gate]
}

// asks asks for an item to be done, and returns when it is under way or waits.
func (p patient) asks(ctx context.Context) *gate {
	g := &gate{end: make(chan struct{})}
	go func() {
		if err := p.Do(ctx, g); err != nil && !errors.Is(err, context.Canceled) {
			p.Error(err)
		}
	}()
	synctest.Wait()
	return g
}

func (p patient) ends(all ...*gate) {
	for _, g := range all {
		close(g.end)
	}
	synctest.Wait()
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// While a place is free, nobody waits for longer than Patience, whatever became of those who waited before.
func TestNobodyWaitsLongerThanPatience(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(p patient){
		"nobody came before": func(patient) {},
		"one was relieved": func(p patient) {
			one := p.asks(p.Context())
			pass(patience)
			p.ends(one)
		},
		"enough came to begin at once": func(p patient) {
			var all []*gate
			for range 5 {
				all = append(all, p.asks(p.Context()))
			}
			p.ends(all...)
		},
		"one gave up": func(p patient) {
			ctx, leave := context.WithCancel(p.Context())
			p.asks(ctx)
			leave()
			pass(2 * patience)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := patient{t, gather.New(2, 10, func(_ context.Context, all []*gate) {
					for _, g := range all {
						g.begun.Store(true)
						<-g.end
					}
				})}
				p.Patience = patience
				stuck := p.asks(t.Context())
				before(p)
				one := p.asks(t.Context())
				pass(patience - 1)
				if one.begun.Load() {
					t.Error("one began early")
				}
				if pass(1); !one.begun.Load() {
					t.Fatal("one waits for the stuck one")
				}
				next := p.asks(t.Context())
				pass(2 * patience)
				if next.begun.Load() {
					t.Error("there was no place")
				}
				p.ends(one)
				if pass(patience); !next.begun.Load() {
					t.Fatal("a place has become free, and the next one still waits")
				}
				p.ends(next, stuck)
			})
		})
	}
}

// Who is in a group has their item done, and hears of it then: not before, and not of the end of their own patience.
func TestWhoIsInAGroupIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, begun, token := gated(10)
		var first, leads, follows item
		over := make(chan error, 3)
		do := func(ctx context.Context, i *item) {
			go func() { over <- g.Do(ctx, i) }()
			synctest.Wait()
		}
		do(t.Context(), &first)
		do(t.Context(), &leads)
		ctx, leave := context.WithCancel(t.Context())
		do(ctx, &follows)
		<-begun
		token <- struct{}{}
		<-begun
		if err := <-over; err != nil {
			t.Error(err)
		}
		leave()
		synctest.Wait()
		if len(over) != 0 {
			t.Errorf("told %v of what is under way", <-over)
		}
		token <- struct{}{}
		for range 2 {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		if leads.group != 2 || follows.group != 2 {
			t.Errorf("leads %+v, follows %+v", leads, follows)
		}
	})
}

// A place that becomes free goes at once to those who wait, if they are enough, even while another group is under way.
func TestAFreePlaceGoesToThoseWhoAreEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, begun, token := gatedPlaces(2, 4)
		items := make([]item, 5)
		over := make(chan error, len(items))
		for i := range items { // one, then two in the other place, then two without one
			go func() { over <- g.Do(t.Context(), &items[i]) }()
			synctest.Wait()
		}
		for range 2 {
			<-begun
		}
		token <- struct{}{}
		synctest.Wait()
		if len(begun) != 1 || g.Waiting() != 0 {
			t.Errorf("%d groups began in the free place, and %d wait beside it", len(begun), g.Waiting())
		}
		token <- struct{}{}
		token <- struct{}{}
		for range items {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
	})
}

// There are never more groups under way than places, even if the patience of some ends at the moment at which enough
// come to take the last place.
func TestNoMoreGroupsThanPlaces(t *testing.T) {
	t.Parallel()
	for range 30 { // of what happens in one moment, anything may come first
		synctest.Test(t, func(t *testing.T) {
			const places = 2
			var under atomic.Int32
			end := make(chan struct{})
			g := gather.New(places, 4, func(context.Context, []*item) {
				if n := under.Add(1); n > places {
					t.Errorf("%d groups in %d places", n, places)
				}
				<-end
				under.Add(-1)
			})
			g.Patience = patience
			over := make(chan error, 8)
			ask := func() { over <- g.Do(t.Context(), &item{}) }
			go ask() // takes a place
			synctest.Wait()
			go ask() // waits
			synctest.Wait()
			for range cap(over) - 2 {
				go func() {
					<-time.After(patience)
					ask()
				}()
			}
			pass(patience)
			close(end)
			for range cap(over) {
				if err := <-over; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Who is done alone is done in their own time: it ends when they give up.
func TestWhoIsAloneEndsAlone(t *testing.T) {
	t.Parallel()
	g, begun, token := gated(10)
	ctx, leave := context.WithCancel(t.Context())
	var alone item
	over := make(chan error)
	go func() { over <- g.Do(ctx, &alone) }()
	<-begun
	leave()
	token <- struct{}{}
	if err := <-over; err != nil || !alone.ended {
		t.Errorf("%v, %+v", err, alone)
	}
}

// Who is given a group to do at the very moment at which they give up does it: the others wait for them.
func TestWhoIsToDoAGroupDoesIt(t *testing.T) {
	t.Parallel()
	for range 30 { // of two things that have happened, either may be noticed first
		synctest.Test(t, func(t *testing.T) {
			g, begun, token := gated(10)
			ctx, leave := context.WithCancel(t.Context())
			given := make(chan struct{})
			g.Wait = func(_ context.Context, still func() bool) {
				<-given
				if !still() {
					leave()
				}
			}
			var first, leads, follows item
			over := make(chan error, 3)
			for i, one := range []*item{&first, &leads, &follows} {
				go func() {
					if i == 1 {
						over <- g.Do(ctx, one)
					} else {
						over <- g.Do(t.Context(), one)
					}
				}()
				synctest.Wait()
			}
			<-begun
			token <- struct{}{}
			synctest.Wait()
			close(given)
			token <- struct{}{}
			for range 3 {
				if err := <-over; err != nil {
					t.Error(err)
				}
			}
			if leads.group != 2 || follows.group != 2 {
				t.Errorf("leads %+v, follows %+v", leads, follows)
			}
		})
	}
}
