package gather_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type item struct {
	group int // how many it was done with; 0: not done
	ended bool
}

// gated is a Group of one place whose work waits for a token.
func gated(most int) (g *gather.Group[*item], begun, token chan struct{}) {
	return gatedPlaces(1, most)
}

// gatedPlaces is gated with several places.
func gatedPlaces(places, most int) (g *gather.Group[*item], begun, token chan struct{}) {
	begun, token = make(chan struct{}, 100), make(chan struct{})
	return gather.New(places, most, func(ctx context.Context, items []*item) {
		begun <- struct{}{}
		<-token
		for _, i := range items {
			i.group, i.ended = len(items), ctx.Err() != nil
		}
	}), begun, token
}

func waitFor(g *gather.Group[*item], n int) {
	for g.Waiting() != n {
		runtime.Gosched()
	}
}

// A caller that finds a free place is done alone. Those that have to wait are done together, in bounded groups, first
// come first.
func TestThoseWhoWaitAreDoneTogether(t *testing.T) {
	t.Parallel()
	g, begun, token := gated(3)
	items := make([]item, 6)
	var all sync.WaitGroup
	for i := range items {
		all.Go(func() {
			if err := g.Do(t.Context(), &items[i]); err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			<-begun
		} else {
			waitFor(g, i)
		}
	}
	for range 3 {
		token <- struct{}{}
	}
	all.Wait()
	for i, want := range []int{1, 3, 3, 3, 2, 2} {
		if items[i].group != want {
			t.Errorf("item %d was done in a group of %d, want %d", i, items[i].group, want)
		}
	}
	again := item{}
	go func() { token <- struct{}{} }()
	if err := g.Do(t.Context(), &again); err != nil || again.group != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// While a group is under way, those who wait for it begin in another place once they are half of a full group, and not
// before.
func TestManyDoNotWait(t *testing.T) {
	t.Parallel()
	g, begun, token := gatedPlaces(2, 6)
	items := make([]item, 6)
	var all sync.WaitGroup
	ended := make(chan int, len(items))
	do := func(i int) {
		all.Go(func() {
			if err := g.Do(t.Context(), &items[i]); err != nil {
				t.Error(err)
			}
			ended <- i
		})
	}
	do(0)
	<-begun
	do(1)
	waitFor(g, 1)
	do(2)
	waitFor(g, 2)
	if len(begun) != 0 {
		t.Error("a group began too early")
	}
	do(3)
	<-begun
	do(4)
	waitFor(g, 1)
	do(5)
	waitFor(g, 2)
	token <- struct{}{}                               // the end of one of the two is not for those who wait: the other is still under way
	for i := <-ended; i != 0 && i != 3; i = <-ended { // who does the group is the last to return
	}
	if len(begun) != 0 || g.Waiting() != 2 {
		t.Errorf("%d wait beside a group that is under way", g.Waiting())
	}
	token <- struct{}{}
	<-begun
	token <- struct{}{}
	all.Wait()
	for i, want := range []int{1, 3, 3, 3, 2, 2} {
		if items[i].group != want {
			t.Errorf("item %d was done in a group of %d, want %d", i, items[i].group, want)
		}
	}
}

// A stuck group holds up others for no longer than Patience.
func TestAStuckGroupHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	g, begun, token := gatedPlaces(2, 10)
	g.Patience = time.Millisecond
	var stuck, first, second item
	var all sync.WaitGroup
	do := func(i *item) {
		all.Go(func() {
			if err := g.Do(t.Context(), i); err != nil {
				t.Error(err)
			}
		})
	}
	do(&stuck)
	<-begun
	do(&first)
	<-begun
	do(&second) // there is no place any more
	waitFor(g, 1)
	for range 3 {
		token <- struct{}{}
	}
	all.Wait()
	if stuck.group != 1 || first.group != 1 || second.group != 1 {
		t.Errorf("stuck %+v, first %+v, second %+v", stuck, first, second)
	}
}

// A caller that gives up while waiting is not done. One that gives up later affects nobody else, even if it is the one
// that does the work.
func TestWhoGoesAwayTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	g, begun, token := gated(10)
	var first, gone, leads, follows item
	var all sync.WaitGroup
	do := func(ctx context.Context, i *item) {
		all.Go(func() {
			if err := g.Do(ctx, i); err != nil {
				t.Error(err)
			}
		})
	}
	do(t.Context(), &first)
	<-begun
	waiting, leave := context.WithCancel(t.Context())
	told := make(chan error)
	go func() { told <- g.Do(waiting, &gone) }()
	waitFor(g, 1)
	leave()
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	leading, leave := context.WithCancel(t.Context())
	defer leave()
	do(leading, &leads)
	waitFor(g, 1)
	do(t.Context(), &follows)
	waitFor(g, 2)
	token <- struct{}{}
	<-begun
	leave()
	token <- struct{}{}
	all.Wait()
	if gone.group != 0 || leads.group != 2 || follows.group != 2 || follows.ended {
		t.Errorf("gone %+v, leads %+v, follows %+v", gone, leads, follows)
	}
}

// A panic belongs to the goroutine in which it happens: the others' items are unchanged, and the place is free again.
func TestPanicFreesThePlace(t *testing.T) {
	t.Parallel()
	g := gather.New(1, 10, func(context.Context, []*item) { panic("broken") })
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("nobody heard of it")
				}
			}()
			_ = g.Do(t.Context(), &item{})
		}()
	}
}
