package graph_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

const paidActionFields = `
	id kind state paymentMethod costMsat costSats attempt genesisId successorId createdAt changedAt deadline secret
	invoice { bolt11 paymentHash amountMsat receivedMsat hold expiresAt } failure { code message }`

// Every mutation that costs money, in every way that leads to an invoice or to PAID at once.
func TestEachPayingMutation(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author := a.Person("author", 100, 0)
	post := a.PostBy(author, "for comments and zaps")
	rich := a.Person("rich", 10_000, 10_000)
	poor := a.Person("poor", 0, 0)

	type flow struct {
		name, field string
		as          person
		method      string
		state       string // as the mutation returns
		hold        bool
	}
	var flows []flow
	for name, field := range map[string]string{
		"post":    `createPost(title: "T", body: "B", `,
		"comment": `createComment(parent: "` + post + `", body: "B", `,
		"zap":     `zap(item: "` + post + `", sats: 1, `,
		"donate":  `donate(sats: 1, `,
	} {
		flows = append(flows,
			flow{name: name + " from credits", field: field, as: rich, method: "FEE_CREDIT", state: "PAID"},
			flow{name: name + " by hold invoice", field: field, as: poor, method: "PESSIMISTIC", state: "PENDING_HELD", hold: true},
			flow{name: name + " anonymously", field: field, as: nobody, method: "PESSIMISTIC", state: "PENDING_HELD", hold: true},
		)
		if name != "donate" {
			flows = append(flows, flow{name: name + " optimistically", field: field, as: poor, method: "OPTIMISTIC", state: "PENDING"})
		}
	}
	flows = append(flows,
		flow{name: "credits from sats", field: `buyCredits(credits: 1, `, as: rich, method: "REWARD_SATS", state: "PAID"},
		flow{name: "credits by hold invoice", field: `buyCredits(credits: 1, `, as: poor, method: "PESSIMISTIC", state: "PENDING_HELD", hold: true},
	)
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			a := a.In(t)
			a.Clock.Advance(20 * time.Minute) // so that the same text again is no duplicate, and costs no more
			r := a.Want(f.as, `mutation { a: `+f.field+`paymentMethod: `+f.method+`) {`+paidActionFields+`} }`, nil)
			if got := r.text("a", "state"); got != f.state {
				t.Fatalf("state is %s, want %s: %s", got, f.state, r.Raw)
			}
			if got := r.text("a", "paymentMethod"); got != f.method {
				t.Errorf("paid by %s, want %s", got, f.method)
			}
			if r.text("a", "id") != r.text("a", "genesisId") || r.text("a", "costMsat") == "" {
				t.Errorf("incomplete: %s", r.Raw)
			}
			if (r.text("a", "secret") != "") != (f.as == nobody) {
				t.Errorf("only the anonymous have a secret: %s", r.Raw)
			}
			if f.state == "PAID" {
				if r.at("a", "invoice") != nil || r.at("a", "deadline") != nil {
					t.Errorf("paid from the balance, and yet to be paid: %s", r.Raw)
				}
				return
			}
			if r.text("a", "invoice", "bolt11") == "" || r.at("a", "invoice", "hold") != f.hold ||
				r.text("a", "invoice", "amountMsat") != r.text("a", "costMsat") || r.text("a", "deadline") == "" {
				t.Errorf("not to be paid: %s", r.Raw)
			}
			a.PayInvoice(r.text("a", "invoice", "bolt11"))
			id := r.text("a", "id")
			for range 3 {
				a.Advance(number(t, id))
			}
			r = a.Want(f.as, `query($id: ID!, $s: String) { paidAction(id: $id, secret: $s) {`+paidActionFields+`} }`,
				vars{"id": id, "s": r.at("a", "secret")})
			if got := r.text("paidAction", "state"); got != "PAID" {
				t.Errorf("state is %s after the payment: %s", got, r.Raw)
			}
			if r.text("paidAction", "invoice", "receivedMsat") != r.text("paidAction", "costMsat") {
				t.Errorf("received something else: %s", r.Raw)
			}
		})
	}
	a.Drain()
	a.WantConserved()
	if a.Balance(ledger.UserCredits(poor.ID)) != 1000 {
		t.Error("poor did not get the credit")
	}
}
