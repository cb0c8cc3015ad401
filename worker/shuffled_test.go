package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// story is the life of one action.
type story struct {
	name   string
	begin  func(h *house) *paidaction.PaidAction
	scenes []scene
	heard  string // kinds of events that it is about
}

// scene is something that happens outside, and the state that the action comes to by it.
type scene struct {
	happens func(h *house, pa *paidaction.PaidAction)
	until   paidaction.State
}

func zapByInvoice(h *house) *paidaction.PaidAction { return h.zap(paidaction.Optimistic) }

// forwarded is a zap to a receiver who does so with the payment.
func forwarded(act simnode.Act) func(*house) *paidaction.PaidAction {
	return func(h *house) *paidaction.PaidAction {
		h.wallet.Ask.Act = act
		return h.zap(paidaction.P2P)
	}
}

func donated(h *house) *paidaction.PaidAction {
	return h.Pay(h.payer, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.Pessimistic)
}

// withdrawn is a withdrawal to a receiver who does so with the payment.
func withdrawn(act simnode.Act) func(*house) *paidaction.PaidAction {
	return func(h *house) *paidaction.PaidAction {
		rich := h.User(fmt.Sprint("rich_", h.Count(`SELECT count(*) FROM usr`)), 0, 100_000)
		inv := h.wallet.Receiver.Issue(simnode.Ask{Amount: 50_000, Act: act})
		return h.Pay(rich, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	}
}

func paid(h *house, pa *paidaction.PaidAction) {
	if err := h.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		h.Fatal(err)
	}
}

func expired(h *house, _ *paidaction.PaidAction) {
	h.Clock.Advance(11 * time.Minute)
	h.Node.Tick()
}

func cancelled(h *house, pa *paidaction.PaidAction) {
	if _, err := h.Engine.Cancel(h.Ctx, enginetest.Caller(h.payer), pa.ID); err != nil {
		h.Fatal(err)
	}
}

// paidMeanwhile: the payment lands while our cancel is on its way.
func paidMeanwhile(h *house, pa *paidaction.PaidAction) {
	h.Node.Before(simnode.MethodCancel, func(paidaction.Hash) { paid(h, pa) })
	cancelled(h, pa)
}

// mined: blocks up to the safety height of what is held arrive one by one, before anybody hears of them.
func mined(h *house, pa *paidaction.PaidAction) {
	inv, _ := h.Node.Inspect(pa.Invoice.Hash)
	h.Node.Mine(inv.NodeInvoice().ExpiryHeight - 30 - h.Node.Height())
}

// paidLate: it is held, and nobody heard of it until too few blocks are left.
func paidLate(h *house, pa *paidaction.PaidAction) { paid(h, pa); mined(h, pa) }

// performedLate: it is performed, and whoever did so heard no more until too few blocks are left.
func performedLate(h *house, pa *paidaction.PaidAction) { paid(h, pa); h.Advance(pa.ID); mined(h, pa) }

// hangs: the receiver holds the payment, or a part of it.
func hangs(h *house, pa *paidaction.PaidAction) {
	h.await("the receiver holds the payment", func() bool { return h.wallet.Receiver.Receipt(outgoing(h, pa)).Held > 0 })
}

func settled(h *house, pa *paidaction.PaidAction) {
	hangs(h, pa)
	if err := h.wallet.Receiver.Settle(outgoing(h, pa)); err != nil {
		h.Fatal(err)
	}
}

// stuck: the receiver lets it hang until its HTLC expires.
func stuck(h *house, pa *paidaction.PaidAction) {
	hangs(h, pa)
	sent, _ := h.Node.Sent(outgoing(h, pa))
	h.Node.Mine(sent.Parts[0].ExpiryHeight - h.Node.Height())
	over(h, pa)
}

// over: the claim can have been sent no more, so a failure counts whoever tells of it.
func over(h *house, pa *paidaction.PaidAction) {
	h.await("the payment has ended at the node", func() bool {
		sent, _ := h.Node.Sent(outgoing(h, pa))
		return sent.Present.State == paidaction.PaymentFailed
	})
	h.Clock.Advance(relay.MaxSendWindow + 11*time.Second)
}

func outgoing(h *house, pa *paidaction.PaidAction) (hash paidaction.Hash) {
	h.Helper()
	var b []byte
	if err := h.Pool.QueryRow(h.Ctx, `SELECT payment_hash FROM relay_payment WHERE action_id = $1`, pa.ID).Scan(&b); err != nil {
		h.Fatal(err)
	}
	copy(hash[:], b)
	return hash
}

func nothing(*house, *paidaction.PaidAction) {}

// stories are those of each flow, one after the other in one house.
var stories = map[string][]story{
	"optimistic": {
		{"paid", zapByInvoice, []scene{{paid, paidaction.Paid}}, "OPEN SETTLED"},
		{"expired", zapByInvoice, []scene{{expired, paidaction.Failed}}, "CANCELED OPEN"},
		{"cancelled", zapByInvoice, []scene{{cancelled, paidaction.Failed}}, "CANCELED OPEN"},
		{"paid while cancelled", zapByInvoice, []scene{{paidMeanwhile, paidaction.Paid}}, "OPEN SETTLED"},
	},
	"pessimistic": {
		{"paid", donated, []scene{{paid, paidaction.Paid}}, "ACCEPTED OPEN SETTLED"},
		{"expired", donated, []scene{{expired, paidaction.Failed}}, "CANCELED OPEN"},
		{"cancelled", donated, []scene{{cancelled, paidaction.Failed}}, "CANCELED OPEN"},
		{"held too late", donated, []scene{{paidLate, paidaction.Failed}}, "ACCEPTED CANCELED OPEN"},
		{"settled too late", donated, []scene{{performedLate, paidaction.Failed}}, "ACCEPTED CANCELED OPEN"},
	},
	"wrapped": {
		{"paid", forwarded(simnode.Pays), []scene{{paid, paidaction.Paid}}, "ACCEPTED OPEN SETTLED payment IN_FLIGHT payment SUCCEEDED"},
		{"expired", forwarded(simnode.Pays), []scene{{expired, paidaction.Failed}}, "CANCELED OPEN"},
		{"cancelled", forwarded(simnode.Pays), []scene{{cancelled, paidaction.Failed}}, "CANCELED OPEN"},
		{"refused by the receiver", forwarded(simnode.Refuses), []scene{{paid, paidaction.Forwarding}, {over, paidaction.Retrying}}, "ACCEPTED CANCELED OPEN payment FAILED payment IN_FLIGHT"},
		{"held by the receiver", forwarded(simnode.Holds), []scene{{paid, paidaction.Forwarding}, {settled, paidaction.Paid}}, "ACCEPTED OPEN SETTLED payment IN_FLIGHT payment SUCCEEDED"},
		{"taken in part first", forwarded(simnode.Splits), []scene{{paid, paidaction.Paid}, {settled, paidaction.Paid}}, "ACCEPTED OPEN SETTLED payment IN_FLIGHT payment SUCCEEDED"},
		{"let hang by the receiver", forwarded(simnode.Holds), []scene{{paid, paidaction.Forwarding}, {stuck, paidaction.Retrying}}, "ACCEPTED CANCELED OPEN payment FAILED payment IN_FLIGHT"},
	},
	"withdrawal": {
		{"paid", withdrawn(simnode.Pays), []scene{{nothing, paidaction.Paid}}, "payment IN_FLIGHT payment SUCCEEDED"},
		{"refused by the receiver", withdrawn(simnode.Refuses), []scene{{over, paidaction.Failed}}, "payment FAILED payment IN_FLIGHT"},
		{"held by the receiver", withdrawn(simnode.Holds), []scene{{settled, paidaction.Paid}}, "payment IN_FLIGHT payment SUCCEEDED"},
		{"taken in part first", withdrawn(simnode.Splits), []scene{{nothing, paidaction.Forwarded}, {settled, paidaction.Paid}}, "payment IN_FLIGHT payment SUCCEEDED"},
		{"let hang by the receiver", withdrawn(simnode.Holds), []scene{{stuck, paidaction.Failed}}, "payment FAILED payment IN_FLIGHT"},
	},
}

// happens tells the story.
func (s story) happens(h *house) {
	h.Helper()
	pa := s.begin(h)
	h.follows(pa)
	for _, scene := range s.scenes {
		scene.happens(h, pa)
		h.until(pa, scene.until)
		if next := h.Look(pa.ID).Successor; next != nil {
			h.follows(h.Look(*next))
		}
	}
	if heard := h.rest(); heard != s.heard {
		h.Errorf("%s: heard of %q, the story is about %q", s.name, heard, s.heard)
	}
}

// tell tells the stories in a house of their own, and returns what came of them.
func tell(t *testing.T, stories []story, processes, times int, seed uint64) []string {
	t.Helper()
	h := open(t, processes, times, seed)
	defer h.stop()
	for _, s := range stories {
		s.happens(h)
	}
	h.wantSound()
	return h.account()
}

// without are the lines that are not among others, however often each is there.
func without(lines, others []string) (left []string) {
	others = slices.Clone(others)
	for _, line := range lines {
		if i := slices.Index(others, line); i >= 0 {
			others = slices.Delete(others, i, i+1)
			continue
		}
		left = append(left, line)
	}
	return left
}

// Every event of every flow, ten times and in any order, to two processes at once, old ones again and again: what comes of it, down to
// each posting, each notification and each change of a row, is what comes of it in one process that hears of each once (spec 01 §1.6).
func TestEveryEventTenTimesInAnyOrder(t *testing.T) {
	t.Parallel()
	for flow, stories := range stories {
		t.Run(flow, func(t *testing.T) {
			t.Parallel()
			want := tell(t, stories, 1, 1, 0)
			for seed := range uint64(2) {
				got := tell(t, stories, 2, 10, seed+1)
				if !slices.Equal(got, want) {
					t.Errorf("seed %d: beyond what comes of it once\n%s\nand without\n%s", seed+1, strings.Join(without(got, want), "\n"), strings.Join(without(want, got), "\n"))
				}
			}
		})
	}
}
