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

// An action of a kind that only a newer program knows, or that was taken away, is shown with what all kinds have, and
// does not take the lists and pages with it that it is in.
func TestAnActionOfAnUnknownKindIsShown(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 1000, 0)
	a.Want(payer, `mutation { a: donate(sats: 1) { id } b: donate(sats: 2) { id } }`, nil)
	open := a.Want(payer, `mutation { donate(sats: 3, paymentMethod: PESSIMISTIC) { id } }`, nil).text("donate", "id")
	a.Want(payer, `mutation($id: ID!) { cancelInvoice(id: $id) { state } }`, vars{"id": open})
	a.Advance(number(t, open))
	a.exec(`ALTER TABLE paid_action DISABLE TRIGGER refuse_step`) // it keeps the kind
	a.exec(`UPDATE paid_action SET kind = 'THANK' WHERE cost_msat > 1000`)
	a.exec(`ALTER TABLE paid_action ENABLE TRIGGER refuse_step`)
	r := a.Want(payer, `query($id: ID!) { paidAction(id: $id) { __typename kind state failure { code } }
		paidActions { nodes { __typename kind state } } me { history { nodes { action { __typename kind } } } } }`, vars{"id": open})
	want := []string{"OtherAction THANK FAILED", "OtherAction THANK PAID", "DonateAction DONATE PAID"}
	for i, n := range r.at("paidActions", "nodes").([]any) {
		n := n.(map[string]any)
		if got := n["__typename"].(string) + " " + n["kind"].(string) + " " + n["state"].(string); got != want[i] {
			t.Errorf("%d: %s, want %s", i, got, want[i])
		}
	}
	if r.text("paidAction", "__typename") != "OtherAction" || r.text("paidAction", "state") != "FAILED" || len(r.at("me", "history", "nodes").([]any)) != 4 {
		t.Errorf("%s", r.Raw)
	}
	s := a.Socket(payer)
	s.Subscribe("1", follow, vars{"id": open})
	s.WantState("1", "FAILED")
	s.WantComplete("1")
	if r := a.Do(payer, `mutation($id: ID!) { retryPaidAction(id: $id) { id } }`, vars{"id": open}); r.code() != "NOT_RETRYABLE" {
		t.Errorf("%s", r.Raw)
	}
}
