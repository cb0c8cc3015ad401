package lightning_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Only what leaves by a channel counts, and only what its peer accepts bounds that.
func TestChannels(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	want := []paidaction.Channel{{Local: 10_000_000_000, MostLeaving: 483, MostLocked: 10_000_000_000}}
	got, err := c.Channels(t.Context())
	if err != nil || len(got) != 1 || got[0] != want[0] {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	receiver := server.Node.Network().AddReceiver("somebody")
	inv, sent := receiver.Issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds, Parts: 2}), errors.New("sent")
	err = server.Node.Pay(t.Context(), paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 2_000, Timeout: time.Minute},
		func(u paidaction.PaymentUpdate) error { return sent })
	if !errors.Is(err, sent) {
		t.Fatal(err)
	}
	want[0].Local, want[0].Locked, want[0].Leaving = want[0].Local-51_000, 51_000, 2
	if got, err = c.Channels(t.Context()); err != nil || len(got) != 1 || got[0] != want[0] {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// A node that takes long to list its channels is no node that is silent: nobody is refused because of it.
func TestAListOfChannelsThatTakesLongIsNoSilence(t *testing.T) {
	t.Parallel()
	_, server, _ := fixture(t)
	config := server.Config()
	config.CallTimeout = 50 * time.Millisecond
	c := server.Dial(config)
	list := func() (asked chan struct{}, leave func(), left chan error) {
		asked, left = make(chan struct{}), make(chan error, 1)
		server.Node.Before(simnode.MethodChannels, func(paidaction.Hash) { close(asked); <-t.Context().Done() })
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, err := c.Channels(ctx); left <- err }()
		return asked, leave, left
	}
	asked, leave, left := list()
	<-asked
	time.AfterFunc(2*config.CallTimeout, leave) // too long for any other call
	if err := <-left; !errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	asked, leave, _ = list()
	defer leave()
	<-asked
	// A busy machine may take longer than a call may; who is refused since the node is silent is so each time.
	for err, tries := lightning.ErrUnreachable, 0; err != nil; tries++ {
		if _, err = c.Info(t.Context()); err != nil && tries == 100 {
			t.Fatalf("asked for something else: %v", err)
		}
	}
}
