package graph_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// A client that breaks the rules of graphql-transport-ws is told which one by the code of the close.
func TestAWebsocketIsClosedAsTheProtocolSays(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Init = 50 * time.Millisecond })
	silent, _, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	silent.WantClosed("whoever says nothing", "4408 TIME_LIMIT_EXCEEDED")

	a = serve(t)
	payer := a.Person("payer", 0, 0)
	v, _, _ := a.holdPost(payer, "followed")
	s := a.Socket(payer)
	s.send(message{Type: "connection_init"})
	s.WantClosed("a second connection_init", "4429 OPERATION_LIMIT_EXCEEDED")

	s = a.Socket(payer)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	s.Subscribe("2", follow, v)
	s.WantState("2", "PENDING_HELD")
	s.Subscribe("1", `{ itemPriceMsat }`, nil)
	s.WantClosed("an id that is in use", "4409 DUPLICATE")
}

// Once an operation has ended, whoever ended it, its id may be used again.
func TestAnIDIsFreeOnceItsOperationHasEnded(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	v, _, _ := a.holdPost(payer, "followed")
	s := a.Socket(payer)
	for range 2 { // the server ends it
		s.Subscribe("1", `{ itemPriceMsat }`, nil)
		if r := s.next("1"); r.code() != "" {
			t.Errorf("%s", r.Raw)
		}
		s.WantComplete("1")
	}
	for range 2 { // the client ends it
		s.Subscribe("1", follow, v)
		s.WantState("1", "PENDING_HELD")
		s.send(message{Type: "complete", ID: "1"})
		s.WantComplete("1")
	}
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	s.send(message{Type: "complete", ID: "1"})
	s.Subscribe("1", `{ itemPriceMsat }`, nil) // at once
	for m, err := s.read(); m.Type != "next"; m, err = s.read() {
		if err != nil {
			t.Fatal(err)
		}
	}
}
