package config

import (
	"testing"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// Flags want their defaults as text, so these stand in two places: they are the same.
func TestDefaultPricesAreTheCommunitys(t *testing.T) {
	t.Parallel()
	var c Config
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if got := c.Prices.Community(); got != community.DefaultSettings() {
		t.Errorf("%+v", got)
	}
}

func TestImpossiblePricesAreRefused(t *testing.T) {
	t.Parallel()
	for _, p := range []Prices{
		{SybilPct: 101}, {RewardsPct: -1}, {PostCost: -1}, {MaxZap: 1},
	} {
		if p.Community().Check() == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}

// The fees of uploads are lists, and lists can have any length.
func TestListsOfAnotherLengthAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--upload-steps=1,2"}, {"--upload-steps=1,2,3,4"}, {"--upload-fees=1"}, {"--upload-fees=0,0,0,0,0"}} {
		var c Config
		parser, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(args); err != nil {
			t.Fatal(err)
		}
		if c.Prices.Community().Check() == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}
