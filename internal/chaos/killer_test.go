package chaos

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func someParts() []*part {
	return []*part{newPart("a", services), newPart("b", services), newPart("pg", database), newPart("x", nodes), newPart("y", nodes), newPart("z", nodes)}
}

func TestBlowsAreDealtByTheWeights(t *testing.T) {
	t.Parallel()
	const every, rounds = 4 * time.Second, 300
	k := newKiller(7, every, someParts())
	byVictim, gaps := map[string]int{}, time.Duration(0)
	for range rounds {
		byClass := map[class]int{}
		for range 20 {
			b := k.draw()
			byClass[b.class]++
			byVictim[b.victim]++
			gaps += b.after
			if b.pause < 0 || b.pause >= 2*time.Second || b.after < every/4 {
				t.Fatalf("blow %+v", b)
			}
		}
		if byClass[services] != 14 || byClass[database] != 3 || byClass[nodes] != 3 {
			t.Fatalf("of twenty blows: %v", byClass)
		}
	}
	if want := map[string]int{"a": 7 * rounds, "b": 7 * rounds, "pg": 3 * rounds, "x": rounds, "y": rounds, "z": rounds}; !maps.Equal(byVictim, want) {
		t.Errorf("by victim: %v", byVictim)
	}
	if mean := gaps / (20 * rounds); mean < every*9/10 || mean > every*11/10 {
		t.Errorf("a blow every %v", mean)
	}
}

func TestASeedRepeatsItsBlows(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (all []blow) {
		k := newKiller(seed, time.Second, someParts())
		for range 100 {
			all = append(all, k.draw())
		}
		return all
	}
	if !slices.Equal(draw(1), draw(1)) || slices.Equal(draw(1), draw(2)) {
		t.Error("the blows are not those of the seed")
	}
}

func TestABlowFindsAnotherOfItsClassAndNoOther(t *testing.T) {
	t.Parallel()
	parts := someParts()
	b := blow{class: nodes, victim: "y", pause: 5}
	if b.strike(parts) {
		t.Fatal("a part that is down was struck")
	}
	struck := make(chan string, 2)
	ready := func(name string) {
		p := parts[slices.IndexFunc(parts, func(p *part) bool { return p.name == name })]
		go func() {
			if <-p.blows == b.pause {
				struck <- name
			}
		}()
	}
	ready("a")
	if b.strike(parts) {
		t.Fatal("a part of another class was struck")
	}
	ready("z")
	for !b.strike(parts) {
	}
	if name := <-struck; name != "z" {
		t.Errorf("%s was struck", name)
	}
	parts[0].blows <- b.pause // lets the one that nobody was to strike end
	<-struck
}
