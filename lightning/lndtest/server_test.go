package lndtest_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listening is a server on a port, with a client.
func listening(t *testing.T, node *simnode.Node) (*lndtest.Server, *lightning.Client) {
	t.Helper()
	s, err := lndtest.Listen(node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	client, err := lightning.Dial(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, client
}

// A server on a port pays an invoice of its peer within the limits, once, and shows the payment. It does not pay an
// invoice that nobody can reach.
func TestServersReachEachOther(t *testing.T) {
	t.Parallel()
	net := simnode.NewNetwork(time.Now)
	ours, client := listening(t, net.AddNode("ours"))
	theirs, receiver := listening(t, net.AddNode("theirs"))
	invoice := func(n byte) (paidaction.InvoiceRequest, string) {
		preimage := paidaction.Preimage{n}
		request := paidaction.InvoiceRequest{Preimage: preimage, Hash: preimage.Hash(), Amount: 7000, Memo: "for a peer", Expiry: time.Hour, CLTVDelta: 80}
		bolt11, err := receiver.OpenInvoice(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return request, bolt11
	}
	request, bolt11 := invoice(1)
	way := paidaction.RouteRequest{Bolt11: bolt11, Probe: paidaction.Hash{1}, FeeLimit: 1000, CLTVLimit: 500}
	if _, err := client.EstimateRoute(t.Context(), way); !errors.Is(err, paidaction.ErrNoRoute) {
		t.Errorf("nobody is reached, and the route is %v", err)
	}
	ours.Reaches(theirs)
	route, err := client.EstimateRoute(t.Context(), way)
	if err != nil || route.Fee != 1000 {
		t.Fatalf("%+v, %v", route, err)
	}
	var last paidaction.PaymentUpdate
	pay := func(bolt11 string, feeLimit paidaction.Msat) error {
		return client.Pay(t.Context(), paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: feeLimit, Timeout: 5 * time.Second, CLTVLimit: route.Height - net.Height()},
			func(u paidaction.PaymentUpdate) error { last = u; return nil })
	}
	if err := pay(bolt11, 1000); err != nil || last.State != paidaction.PaymentSucceeded || *last.Preimage != request.Preimage || last.Fee != 1000 {
		t.Errorf("%+v, %v", last, err)
	}
	told := 0
	err = client.TrackPayment(t.Context(), request.Hash, func(u paidaction.PaymentUpdate) error { told, last = told+1, u; return nil })
	if err != nil || told != 1 || last.State != paidaction.PaymentSucceeded {
		t.Errorf("tracking tells %d times, last %+v, %v", told, last, err)
	}
	if err := pay(bolt11, 1000); !errors.Is(err, paidaction.ErrPaymentExists) {
		t.Errorf("it is paid again: %v", err)
	}
	if inv, _ := theirs.Node.Inspect(request.Hash); inv.State != paidaction.InvoiceSettled {
		t.Errorf("the peer's invoice is %s", inv.State)
	}
	request, bolt11 = invoice(2)
	if err := pay(bolt11, 999); err != nil || last.State != paidaction.PaymentFailed || last.Failure != "NO_ROUTE" {
		t.Errorf("for less than the way takes: %+v, %v", last, err)
	}
	if inv, _ := theirs.Node.Inspect(request.Hash); inv.State != paidaction.InvoiceOpen {
		t.Errorf("the peer's invoice is %s", inv.State)
	}
}
