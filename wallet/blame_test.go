package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

// What the caller finds wrong with an invoice is the wallet's failure too, and the next one is asked.
func TestRefusedInvoicesAreFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis := w.user(), w.genesis()
	a, b := w.save(user, newLNbits(t, w.mint).settings()).ID, w.save(user, newLNbits(t, w.mint).settings()).ID
	refusal := paidaction.Errorf("WRAP_EXPIRY", "The invoice expires too soon.").Because(errors.New("node 10.0.0.1"))
	unreadable := paidaction.Errorf(wallet.CodeBadInvoice, "The wallet's invoice could not be used for a payment.").Because(errors.New("node 10.0.0.1"))
	for i, failure := range []error{refusal, unreadable} {
		if i > 0 {
			if err := w.failed(b, genesis, "NO_ROUTE"); err != nil { // as often as the first
				t.Fatal(err)
			}
		}
		var tried []int64
		err := w.Each(w.ctx, user, genesis, 1000, "", func(wallet int64, _ string) error {
			if tried = append(tried, wallet); wallet == a {
				return failure
			}
			return nil
		})
		if err != nil || fmt.Sprint(tried) != fmt.Sprint([]int64{a, b}) {
			t.Errorf("round %d tried %v, error %v", i, tried, err)
		}
	}
	w.want(user, genesis, b)
	w.wantLog(a, "ok INVOICE_ISSUED", "WRAP_EXPIRY", "WALLET_BAD_INVOICE")
	if log := w.everything(); strings.Contains(log, "10.0.0.1") || !strings.Contains(log, "The invoice expires too soon.") {
		t.Errorf("logged %s", log)
	}
}

// What fails beside the wallet, such as our own database, is neither counted against it nor told to its owner, and ends the search: the next
// wallet's invoice would fail by it as well.
func TestAFaultOfOursIsNoWalletsFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis := w.user(), w.genesis()
	a, b := w.save(user, newLNbits(t, w.mint).settings()).ID, w.save(user, newLNbits(t, w.mint).settings()).ID
	fault := errors.New("postgres at 10.0.0.1 is away")
	for range 2 {
		var tried []int64
		err := w.Each(w.ctx, user, genesis, 1000, "", func(wallet int64, _ string) error {
			tried = append(tried, wallet)
			return fault
		})
		if !errors.Is(err, fault) || !slices.Equal(tried, []int64{a}) {
			t.Errorf("tried %v, error %v", tried, err)
		}
	}
	w.want(user, genesis, a)
	w.wantLog(a, "ok INVOICE_ISSUED", "ok INVOICE_ISSUED")
	w.wantLog(b, "ok INVOICE_ISSUED")
}

// When the caller gives up, that is no wallet's failure.
func TestGivenUpByTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis := w.user(), w.genesis()
	s := newLNbits(t, w.mint)
	id := w.save(user, s.settings()).ID
	begun := make(chan struct{})
	s.breaks(func(w http.ResponseWriter, r *http.Request) { close(begun); hang(w, r) })
	ctx, cancel := context.WithCancel(w.ctx)
	go func() { <-begun; cancel() }()
	err := w.Each(ctx, user, genesis, 1000, "", func(int64, string) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	// Nor is what is then said of the invoice: our nodes were not waited for.
	s.breaks(nil)
	ctx, cancel = context.WithCancel(w.ctx)
	err = w.Each(ctx, user, genesis, 1000, "", func(int64, string) error {
		cancel()
		return paidaction.Errorf(wallet.CodeBadInvoice, "No node reads the invoice.")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up while the invoice was read: %v", err)
	}
	w.wantLog(id, "ok INVOICE_ISSUED")
}

// An error that nobody has foreseen is a wallet's own: it is counted, nothing of its text is told, and the next wallet
// is asked.
func TestAnUnknownErrorIsTheWallets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var says error
	w.AddInvoice = func(_ context.Context, _ wallet.LNDGRPC, r wallet.Request, _ wallet.Dial) (string, error) {
		return w.invoice(r.Amount, r.Memo), says
	}
	user, genesis := w.user(), w.genesis()
	strange := wallet.LNDGRPC{Address: "node.example:10009", Macaroon: "00"}
	a, b := w.save(user, strange).ID, w.save(user, newLNbits(t, w.mint).settings()).ID
	says = errors.New("rpc error: of node 10.0.0.1")
	w.want(user, genesis, b)
	w.wantLog(a, "ok INVOICE_ISSUED", "WALLET_DECLINED")
	_, err := w.Save(w.ctx, user, a, "", strange, nil)
	if codeOf(err) != wallet.CodeDeclined || strings.Contains(err.Error()+w.everything(), "10.0.0.1") {
		t.Errorf("saved again: %v", err)
	}
}
