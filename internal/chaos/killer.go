package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// class is a kind of part.
type class string

const (
	services class = "services"
	database class = "postgresql"
	nodes    class = "nodes"
)

// weights say how many of twenty blows hit each class.
var weights = map[class]int{services: 14, database: 3, nodes: 3}

// maxPause is the longest time that a killed part stays down.
const maxPause = 2 * time.Second

// blow is one kill, as drawn.
type blow struct {
	after  time.Duration // since the previous blow
	class  class
	victim string
	pause  time.Duration // until the victim is started again
}

// killer draws blows. The same seed draws the same blows.
type killer struct {
	rand    *rand.Rand
	every   time.Duration
	classes *deck[class]
	victims map[class]*deck[string]
}

// newKiller makes a killer with this mean time between blows.
func newKiller(seed uint64, every time.Duration, parts []*part) *killer {
	k := &killer{rand: rand.New(rand.NewPCG(seed, 0)), every: every, victims: map[class]*deck[string]{}}
	var cards []class
	for _, c := range []class{services, database, nodes} {
		var names []string
		for _, p := range parts {
			if p.class == c {
				names = append(names, p.name)
			}
		}
		cards = append(cards, slices.Repeat([]class{c}, weights[c])...)
		k.victims[c] = newDeck(k.rand, names)
	}
	k.classes = newDeck(k.rand, cards)
	return k
}

func (k *killer) draw() blow {
	c := k.classes.deal()
	return blow{
		after: k.every/4 + time.Duration(k.rand.Int64N(int64(k.every)*3/2)),
		class: c, victim: k.victims[c].deal(), pause: time.Duration(k.rand.Int64N(int64(maxPause))),
	}
}

// rage deals blows until the context ends.
func (k *killer) rage(ctx context.Context, parts []*part) {
	for {
		b := k.draw()
		if wait(ctx, b.after) != nil {
			return
		}
		for !b.strike(parts) {
			if wait(ctx, 20*time.Millisecond) != nil {
				return
			}
		}
	}
}

// strike kills the victim, or, if that is down already, another part of its class. It reports false if all of these are
// down.
func (b blow) strike(parts []*part) bool {
	var own []*part
	for _, p := range parts {
		switch {
		case p.name == b.victim:
			own = slices.Insert(own, 0, p)
		case p.class == b.class:
			own = append(own, p)
		}
	}
	return slices.ContainsFunc(own, func(p *part) bool { return p.strike(b.pause) })
}

// wait returns nil after this time, or the reason if the context ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
