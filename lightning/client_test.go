package lightning_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode/nodetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Env {
		env := nodetest.NewSim()
		env.Through = lndtest.New(t, env.Sim).Client()
		return env
	})
}

// fixture is a client, the server it talks to, and the node behind.
func fixture(t *testing.T) (*lightning.Client, *lndtest.Server, *simnode.Node) {
	t.Helper()
	node := simnode.New("alice", time.Now)
	server := lndtest.New(t, node)
	return server.Client(), server, node
}

func request(seed byte, hold bool) paidaction.InvoiceRequest {
	p := paidaction.Preimage{seed}
	return paidaction.InvoiceRequest{
		Hold: hold, Preimage: p, Hash: p.Hash(), Amount: 123_456, Memo: "a post", Expiry: time.Hour, CLTVDelta: 80,
	}
}

// issued is the text of an invoice that c's node issues.
func issued(t *testing.T, c *lightning.Client, r paidaction.InvoiceRequest) string {
	t.Helper()
	bolt11, err := c.OpenInvoice(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return bolt11
}

// Of what is asked again and again, the chain may be a moment old; who the node is may not. A failure answers nobody.
func TestOnlyTheChainIsKnownForAMoment(t *testing.T) {
	t.Parallel()
	c, _, node := fixture(t)
	node.SetAway(true)
	if _, err := c.Chain(t.Context()); !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatal(err)
	}
	known := false
	for tries := 0; tries < 20 && !known; tries++ { // a busy machine may take longer than the moment
		node.SetAway(false)
		var chain paidaction.Chain
		if err := eventually(t, func() (err error) { chain, err = c.Chain(t.Context()); return err }); err != nil || !chain.Synced {
			t.Fatalf("%+v, %v", chain, err)
		}
		node.SetAway(true)
		again, err := c.Chain(t.Context())
		known = err == nil && again == chain
	}
	if !known {
		t.Error("the node is asked each time")
	}
	if _, err := c.PublicKey(t.Context()); !errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("nobody asked who the node is: %v", err)
	}
	err := eventually(t, func() error {
		_, err := c.Chain(t.Context())
		if err == nil {
			return lightning.ErrUnreachable // not yet: the answer is still good
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnInvoiceDescribedByAHash(t *testing.T) {
	t.Parallel()
	c, _, _ := fixture(t)
	for seed, hold := range map[byte]bool{1: false, 2: true} {
		r := request(seed, hold)
		r.DescriptionHash = [32]byte{1, 2, 3}
		bolt11 := issued(t, c, r)
		got, err := c.DecodeInvoice(t.Context(), bolt11)
		if err != nil || got.Hash != r.Hash || got.Description != "" || got.DescriptionHash != hex.EncodeToString(r.DescriptionHash[:]) {
			t.Errorf("hold %t: %+v, error %v", hold, got, err)
		}
	}
}

func TestReceivedAndExpiryIgnoreCancelledParts(t *testing.T) {
	t.Parallel()
	c, _, node := fixture(t)
	r := request(1, true)
	if _, err := c.OpenInvoice(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	part, err := node.AddPart(r.Hash, 100_000, 0, 185)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.CancelPart(r.Hash, part); err != nil {
		t.Fatal(err)
	}
	if err := node.PayHash(r.Hash, simnode.Payment{Msat: 200_001, ExpiryHeights: []uint32{400, 300}}); err != nil {
		t.Fatal(err)
	}
	v, err := c.LookupInvoice(t.Context(), r.Hash)
	if err != nil || v.State != paidaction.InvoiceAccepted || v.Received != 200_001 || v.ExpiryHeight != 300 {
		t.Fatalf("%v %+v", err, v)
	}
	if err := c.CancelInvoice(t.Context(), r.Hash); err != nil {
		t.Fatal(err)
	}
	if v, err := c.LookupInvoice(t.Context(), r.Hash); err != nil || v.Received != 0 || v.ExpiryHeight != 0 {
		t.Fatalf("%v %+v", err, v)
	}
}

func TestFaultsAreUnknown(t *testing.T) {
	t.Parallel()
	c, server, node := fixture(t)
	r := request(1, true)
	node.FailAfter(simnode.MethodOpen, 1)
	if _, err := c.OpenInvoice(t.Context(), r); !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatalf("answer lost: %v", err)
	}
	bolt11, err := c.OpenInvoice(t.Context(), r)
	if err != nil || !strings.HasPrefix(bolt11, "lnbcrt") {
		t.Fatalf("opened again: %q, %v", bolt11, err)
	}
	server.SetStarting(true)
	if _, err := c.LookupInvoice(t.Context(), r.Hash); !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatalf("starting: %v", err)
	}
	server.SetStarting(false)
	server.Stop()
	if _, err := c.LookupInvoice(t.Context(), r.Hash); !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatalf("stopped: %v", err)
	}
	server.Restart()
	if err := eventually(t, func() error { _, err := c.LookupInvoice(t.Context(), r.Hash); return err }); err != nil {
		t.Fatalf("restarted: %v", err)
	}
}

// eventually calls what until it reaches the node: the client redials by itself within about a second.
func eventually(t *testing.T, what func() error) error {
	t.Helper()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		err := what()
		if !errors.Is(err, lightning.ErrUnreachable) {
			return err
		}
		select {
		case <-t.Context().Done():
			return err
		case <-retry.C:
		}
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 20 * time.Millisecond
	c := server.Dial(cfg)
	released := make(chan struct{})
	node.Before(simnode.MethodLookup, func(paidaction.Hash) { <-released })
	defer close(released)
	_, err := c.LookupInvoice(context.Background(), paidaction.Hash{1})
	if !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatal(err)
	}
}

// A call that changes an invoice goes on at the node when its caller has given up: LND on PostgreSQL would settle or cancel it, and tell no channel.
func TestWhatChangesAnInvoiceIsNotBrokenOff(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 100 * time.Millisecond
	c := server.Dial(cfg)
	for seed, m := range []simnode.Method{simnode.MethodSettle, simnode.MethodCancel} {
		r := request(byte(seed+1), true)
		if _, err := node.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		stands, ended := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(stands) })
		defer release() // the server waits for its calls when it is stopped
		node.Before(m, func(paidaction.Hash) { <-stands })
		node.After(m, func(paidaction.Hash) { close(ended) })
		do := map[simnode.Method]func() error{
			simnode.MethodSettle: func() error { return c.SettleInvoice(t.Context(), r.Preimage) },
			simnode.MethodCancel: func() error { return c.CancelInvoice(t.Context(), r.Hash) },
		}[m]
		if err := do(); !errors.Is(err, lightning.ErrUnreachable) {
			t.Errorf("%v: %v", m, err)
		}
		if err := eventually(t, func() error { _, err := c.Info(t.Context()); return err }); err != nil { // on the same connection, so a call that was broken off is so at the node, too
			t.Fatal(err)
		}
		release()
		<-ended
		if inv, _ := node.Inspect(r.Hash); inv.State == paidaction.InvoiceAccepted {
			t.Errorf("%v: the payment is still held", m)
		}
	}
}

// Nor does a process break it off that is told to end, unless the node stands still for too long: whoever closes a client
// whose callers have given up waits.
func TestClosingBreaksNoChangeOff(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"the node answers": true, "the node stands still": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, server, node := fixture(t)
			c, err := lightning.Dial(server.Config())
			if err != nil {
				t.Fatal(err)
			}
			r := request(1, true)
			if _, err := node.Add(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
				t.Fatal(err)
			}
			came, stands := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(stands) })
			defer release()
			node.Before(simnode.MethodSettle, func(paidaction.Hash) { close(came); <-stands })
			ctx, giveUp := context.WithCancel(t.Context())
			settled := make(chan error, 1)
			go func() { settled <- c.SettleInvoice(ctx, r.Preimage) }()
			<-came
			giveUp()
			if err := <-settled; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			select {
			case <-closed:
				t.Fatal("the call was broken off")
			case <-time.After(100 * time.Millisecond):
			}
			if answers {
				release()
			}
			select {
			case err := <-closed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the process never ends")
			}
			if inv, _ := node.Inspect(r.Hash); answers && inv.State != paidaction.InvoiceSettled {
				t.Errorf("the invoice is %s", inv.State)
			}
		})
	}
}

// While a client that is being closed waits for such a call, no other one begins: nobody would wait for that, so it
// could be broken off.
func TestClosingLetsNoChangeBegin(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	c, err := lightning.Dial(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	came, stands := make(chan struct{}), make(chan struct{})
	node.Before(simnode.MethodSettle, func(paidaction.Hash) { close(came); <-stands })
	ctx, giveUp := context.WithCancel(t.Context())
	settled, closed := make(chan error, 1), make(chan error, 1)
	go func() { settled <- c.SettleInvoice(ctx, request(1, true).Preimage) }()
	<-came
	giveUp()
	<-settled
	go func() { closed <- c.Close() }()
	begins, done := context.WithTimeout(t.Context(), 4*time.Second) // before the connection ends
	defer done()
	for err == nil || errors.Is(err, paidaction.ErrInvoiceNotFound) { // until Close has begun
		err = c.CancelInvoice(begins, request(2, true).Hash)
	}
	if begins.Err() != nil || !errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("a change still begins: %v", err)
	}
	close(stands)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := c.CancelInvoice(t.Context(), request(2, true).Hash); !errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("after it was closed: %v", err)
	}
}

// A node that takes calls and does not answer holds up one caller at a time, not all; once it answers it is as before.
func TestASilentNodeHoldsUpOneCaller(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 3 * time.Second
	c := server.Dial(cfg)
	look := func() error {
		_, err := c.LookupInvoice(context.Background(), paidaction.Hash{1})
		return err
	}
	if err := eventually(t, look); !errors.Is(err, paidaction.ErrInvoiceNotFound) { // connecting can take longer than a call may
		t.Fatal(err)
	}
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	hang := func() <-chan struct{} {
		entered := make(chan struct{})
		node.Before(simnode.MethodLookup, func(paidaction.Hash) { close(entered); <-released })
		return entered
	}
	hang()
	if err := look(); !errors.Is(err, lightning.ErrUnreachable) { // from here on the node is known to be silent
		t.Fatal(err)
	}
	entered := hang()
	first := make(chan error, 1)
	go func() { first <- look() }()
	<-entered
	begun := time.Now()
	for range 20 {
		if err := look(); !errors.Is(err, lightning.ErrUnreachable) {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took > cfg.CallTimeout {
		t.Errorf("20 callers were held up for %v", took)
	}
	if err := <-first; !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatal(err)
	}
	release()
	if err := look(); !errors.Is(err, paidaction.ErrInvoiceNotFound) {
		t.Fatal(err)
	}
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- look() }()
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, paidaction.ErrInvoiceNotFound) {
			t.Errorf("after the node answered: %v", err)
		}
	}
}

func TestTheCallersContextShows(t *testing.T) {
	t.Parallel()
	c, _, _ := fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.LookupInvoice(ctx, paidaction.Hash{1})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatal(err)
	}
}

// The same of a node that says nothing of its payments. Who follows one for as long as it takes keeps the others from asking no longer than a call does.
func TestANodeSilentOfPaymentsHoldsUpOneCaller(t *testing.T) {
	t.Parallel()
	_, server, _ := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 6 * time.Second
	c := server.Dial(cfg)
	track := func(ctx context.Context) error {
		return c.TrackPayment(ctx, paidaction.Hash{1}, func(paidaction.PaymentUpdate) error { return nil })
	}
	asked, speak := server.Mute()
	go func() { <-asked }()
	impatient, cancel := context.WithTimeout(t.Context(), cfg.CallTimeout*5/6)
	defer cancel()
	if err := track(impatient); err == nil || errors.Is(err, paidaction.ErrPaymentNotFound) { // from here on the node is known to be silent
		t.Fatal("it spoke")
	}
	patient := make(chan error, 2)
	go func() { patient <- track(t.Context()) }()
	<-asked
	soon, cancel := context.WithTimeout(t.Context(), cfg.CallTimeout/2)
	defer cancel()
	for range 20 {
		if err := track(soon); !errors.Is(err, lightning.ErrUnreachable) {
			t.Fatal(err)
		}
	}
	if soon.Err() != nil {
		t.Error("20 callers were held up")
	}
	go func() { patient <- eventually(t, func() error { return track(t.Context()) }) }()
	<-asked // though the first one still waits
	speak()
	for range cap(patient) {
		if err := <-patient; !errors.Is(err, paidaction.ErrPaymentNotFound) {
			t.Error(err)
		}
	}
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- track(t.Context()) }()
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, paidaction.ErrPaymentNotFound) {
			t.Errorf("after the node spoke: %v", err)
		}
	}
}

// A spontaneous AMP payment has no hash. The stream goes on, and its indices are told.
func TestAPaymentWithoutAHashEndsNoStream(t *testing.T) {
	t.Parallel()
	c, server, node := fixture(t)
	before, amp, ours := request(1, false), request(2, false), request(3, false)
	server.ShowAsAMP(amp.Hash)
	for _, r := range []paidaction.InvoiceRequest{before, amp, ours} {
		if _, err := node.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
	}
	var heard []paidaction.InvoiceEvent
	enough := errors.New("enough")
	err := c.WatchInvoices(t.Context(), 1, 1, func(e paidaction.InvoiceEvent) error {
		if heard = append(heard, e); e.Hash == ours.Hash {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(heard) < 2 || heard[0].Hash != (paidaction.Hash{}) || heard[0].AddIndex != 2 {
		t.Errorf("%+v, %v", heard, err)
	}
}

// A node that was wiped, restored or moved counts from 1 again, perhaps only what was settled. It is told of once, however far the listener had come, and so is
// what comes when the node has caught up.
func TestANodeThatCountsAnewIsHeard(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]struct{ add, settle uint64 }{"both": {2, 2}, "what is settled": {1, 4}, "what is added": {4, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, node := fixture(t)
			events := make(chan paidaction.InvoiceEvent, 100)
			go func() {
				_ = c.WatchInvoices(t.Context(), from.add, from.settle, func(e paidaction.InvoiceEvent) error { events <- e; return nil })
			}()
			limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := node.AwaitStreams(limited, 2); err != nil {
				t.Fatal(err)
			}
			told := func(h paidaction.Hash, state paidaction.InvoiceState) {
				t.Helper()
				select {
				case e := <-events:
					if e.Hash != h || e.State != state {
						t.Errorf("%+v instead of invoice %s %s", e, h, state)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("nothing was told of invoice %s %s", h, state)
				}
			}
			for seed := range byte(6) {
				r := request(seed+1, false)
				if _, err := node.Add(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				told(r.Hash, paidaction.InvoiceOpen)
				if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
					t.Fatal(err)
				}
				told(r.Hash, paidaction.InvoiceSettled)
			}
			if len(events) > 0 {
				t.Errorf("told once more: %+v", <-events)
			}
		})
	}
}

func TestStreamsEndWithTheirNode(t *testing.T) {
	t.Parallel()
	c, server, node := fixture(t)
	for what, end := range map[string]func(){"dropped": node.DropStreams, "stopped": server.Stop} {
		errs := make(chan error, 3)
		go func() {
			errs <- c.WatchInvoices(t.Context(), 0, 0, func(paidaction.InvoiceEvent) error { return nil })
		}()
		go func() {
			errs <- c.WatchInvoice(t.Context(), paidaction.Hash{1}, func(paidaction.InvoiceEvent) error { return nil })
		}()
		go func() { errs <- c.WatchBlocks(t.Context(), func(uint32) error { return nil }) }()
		if err := node.AwaitStreams(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		end()
		for range 3 {
			if err := <-errs; !errors.Is(err, lightning.ErrStreamEnded) {
				t.Errorf("%s: %v", what, err)
			}
		}
		server.Stop()
		server.Restart()
		if err := eventually(t, func() error { _, err := c.Info(t.Context()); return err }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANodeThatCannotBeReliedOnIsUnfit(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.SetKeysend(true)
	if err := c.Check(t.Context()); !errors.Is(err, lightning.ErrUnfit) || !strings.Contains(err.Error(), "accept-keysend") {
		t.Errorf("a node that takes keysend: %v", err)
	}
	server.SetKeysend(false)
	sending := []string{
		"/lnrpc.Lightning/DecodePayReq", "/lnrpc.Lightning/GetNodeInfo", "/lnrpc.Lightning/ChannelBalance", "/lnrpc.Lightning/ListChannels",
		"/routerrpc.Router/SendPaymentV2", "/routerrpc.Router/TrackPaymentV2",
	}
	server.Deny(sending...)
	err := c.Check(t.Context())
	for _, method := range sending {
		if !errors.Is(err, lightning.ErrNotPermitted) || !strings.Contains(err.Error(), "uri:"+method) {
			t.Errorf("%s is not missed: %v", method, err)
		}
	}
	if err := c.TrackPayment(t.Context(), paidaction.Hash{1}, nil); !errors.Is(err, paidaction.ErrNotPermitted) {
		t.Errorf("asked about a payment: %v", err)
	}
	issues := server.Config()
	issues.Sends = false
	if err := server.Dial(issues).Check(t.Context()); err != nil {
		t.Errorf("a node that only issues: %v", err)
	}
	server.Deny("/invoicesrpc.Invoices/SettleInvoice")
	err = c.Check(t.Context())
	if !errors.Is(err, lightning.ErrUnfit) || !errors.Is(err, lightning.ErrNotPermitted) || !strings.Contains(err.Error(), "uri:/invoicesrpc.Invoices/SettleInvoice") {
		t.Fatal(err)
	}
	if err := c.SettleInvoice(t.Context(), paidaction.Preimage{1}); !errors.Is(err, lightning.ErrNotPermitted) {
		t.Fatal(err)
	}
	server.Deny()
	// LND before 0.20 would call any macaroon sufficient, and no moment reached.
	server.SetVersion("0.19.3-beta commit=v0.19.3-beta")
	if got, err := c.Time(t.Context()); err == nil {
		t.Errorf("a clock that the node does not tell: %v", got)
	}
	if err := c.Check(t.Context()); !errors.Is(err, lightning.ErrUnfit) || !strings.Contains(err.Error(), "upgrade it to 0.20 or later") {
		t.Errorf("a node that checks no macaroon: %v", err)
	}
	server.SetVersion("0.20.0-beta.rc1 commit=v0.20.0-beta.rc1")
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("the first that checks them: %v", err)
	}
	server.SetChainless(true)
	if err := c.Check(t.Context()); err == nil || errors.Is(err, lightning.ErrUnfit) || errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("a node that does not say what it is: %v", err)
	}
	server.SetChainless(false)
	cfg := server.Config()
	cfg.Network = "mainnet"
	server.SetVersion("1.0.0")
	elsewhere := server.Dial(cfg)
	if err := elsewhere.Check(t.Context()); !errors.Is(err, lightning.ErrUnfit) || !strings.Contains(err.Error(), "mainnet") {
		t.Fatal(err)
	}
	nodes, err := lightning.NewNodes(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := nodes.Issuer(t.Context()); !errors.Is(err, lightning.ErrUnfit) { // coins of another network would pay
		t.Errorf("%q is asked for invoices, %v", name, err)
	}
}

func TestDialRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	_, server, _ := fixture(t)
	for what, change := range map[string]func(*lightning.Config){
		"no name":       func(c *lightning.Config) { c.Name = "" },
		"no address":    func(c *lightning.Config) { c.Address = "" },
		"no macaroon":   func(c *lightning.Config) { c.MacaroonHex = "" },
		"half macaroon": func(c *lightning.Config) { c.MacaroonHex = c.MacaroonHex[:40] },
		"no PEM":        func(c *lightning.Config) { c.TLSCertPEM = []byte("cert") },
	} {
		cfg := server.Config()
		change(&cfg)
		if _, err := lightning.Dial(cfg); err == nil {
			t.Errorf("%s: dialled", what)
		} else if cfg.MacaroonHex != "" && strings.Contains(err.Error(), cfg.MacaroonHex) {
			t.Errorf("%s: the macaroon is in the error", what)
		}
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	first, firstServer, firstNode := fixture(t)
	secondNode := simnode.New("bob", time.Now)
	secondServer := lndtest.New(t, secondNode)
	second := secondServer.Client()
	for _, c := range []*lightning.Client{first, second} { // connecting can take longer than a pool waits for an answer
		if err := eventually(t, func() error { _, err := c.Info(t.Context()); return err }); err != nil {
			t.Fatal(err)
		}
	}
	// Each pool asks afresh.
	issuer := func() (string, error) {
		nodes, err := lightning.NewNodes(first, second)
		if err != nil {
			t.Fatal(err)
		}
		nodes.StandStill()
		name, err := nodes.Issuer(t.Context())
		asked := len(firstNode.Calls())
		if again, _ := nodes.Issuer(t.Context()); again != name || len(firstNode.Calls()) != asked {
			t.Errorf("%q, then %q; the answer is not remembered", name, again)
		}
		return name, err
	}
	if name, err := issuer(); err != nil || name != "alice" {
		t.Fatal(name, err)
	}
	firstServer.SetKeysend(true) // as Check would find, too, perhaps later
	if name, err := issuer(); err != nil || name != "bob" {
		t.Fatal(name, err)
	}
	firstServer.SetKeysend(false)
	firstNode.SetSynced(false)
	if name, err := issuer(); err != nil || name != "bob" {
		t.Fatal(name, err)
	}
	secondServer.Stop()
	if _, err := issuer(); !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) ||
		!errors.Is(err, lightning.ErrUnreachable) {
		t.Fatal(err)
	}
	nodes, err := lightning.NewNodes(first, second)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := nodes.Node("bob"); err != nil || n != paidaction.Node(second) {
		t.Fatal(n, err)
	}
	if n, err := nodes.Node("carol"); n != nil || !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Fatal(n, err)
	}
	if _, err := lightning.NewNodes(first, first); err == nil {
		t.Fatal("two nodes with one name")
	}
}
