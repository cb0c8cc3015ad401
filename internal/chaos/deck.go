package chaos

import (
	"math/rand/v2"
	"slices"
)

// deck deals its cards in random order, and is shuffled again when all are dealt. So each kind of card gets exactly its
// share, and none stays away for long.
type deck[T any] struct {
	cards, left []T
	rand        *rand.Rand
}

func newDeck[T any](r *rand.Rand, cards []T) *deck[T] { return &deck[T]{cards: cards, rand: r} }

func (d *deck[T]) deal() T {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.cards)
		d.rand.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	last := len(d.left) - 1
	card := d.left[last]
	d.left = d.left[:last]
	return card
}
