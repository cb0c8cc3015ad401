package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// farNodes are nodes whose errors say where they are.
type farNodes struct{ simnode.Nodes }

var errFar = errors.New("dial tcp 10.1.2.3:10009: connection refused (/srv/lnd/admin.macaroon)")

func (farNodes) Node(string) (paidaction.Node, error)          { return farNode{}, nil }
func (farNodes) Sender(string) (paidaction.SendingNode, error) { return nil, errFar }

type farNode struct{}

func (farNode) OpenInvoice(context.Context, paidaction.InvoiceRequest) (string, error) {
	return "", errFar
}
func (farNode) LookupInvoice(context.Context, paidaction.Hash) (paidaction.NodeInvoice, error) {
	return paidaction.NodeInvoice{}, errFar
}
func (farNode) SettleInvoice(context.Context, paidaction.Preimage) error { return errFar }
func (farNode) CancelInvoice(context.Context, paidaction.Hash) error     { return errFar }
func (farNode) EachSettled(context.Context, time.Time, func(paidaction.NodeInvoice) error) error {
	return errFar
}
func (farNode) Chain(context.Context) (paidaction.Chain, error) { return paidaction.Chain{}, errFar }

// spec 05.38: only the log says where a node is, and where its secrets are.
func TestNodesAreNotNamed(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 0, 100)
	post := a.PostBy(author, "a post")
	a.Wallets.Add(author.ID)
	begin := func() string {
		return a.Want(payer, `mutation { donate(sats: 1, paymentMethod: PESSIMISTIC) { id } }`, nil).text("donate", "id")
	}
	open, cancelled := begin(), begin()
	a.Want(payer, `mutation($id: ID!) { cancelInvoice(id: $id) { id } }`, vars{"id": cancelled})
	payee := a.Network.AddReceiver("payee").Issue(simnode.Ask{Amount: 5000}).Bolt11
	a.Engine.Nodes, a.Relay.Nodes = farNodes{a.Nodes}, farNodes{a.Nodes}

	for _, query := range []string{
		`mutation { donate(sats: 1, paymentMethod: PESSIMISTIC) { id } }`,
		`mutation { zap(item: "` + post + `", sats: 10, paymentMethod: OPTIMISTIC) { id } }`,
		`mutation { zap(item: "` + post + `", sats: 10, paymentMethod: P2P) { id } }`,
		`mutation { retryPaidAction(id: "` + cancelled + `") { id failure { code message } } }`,
		`mutation { cancelInvoice(id: "` + open + `") { id state failure { code message } } }`,
		`mutation { withdraw(to: "` + payee + `", maxFeeSats: 1) { id } }`,
		`{ paidAction(id: "` + open + `") { state failure { code message } invoice { bolt11 } } }`,
		`{ me { history(first: 100) { nodes { action { state failure { code message } } } } } }`,
	} {
		r := a.Do(payer, query, nil)
		wantNoLeak(t, query, r)
		for _, inside := range []string{"10.1.2.3", "10009", "macaroon", "dial", "refused ("} {
			if strings.Contains(r.Raw, inside) {
				t.Errorf("%s shows %q: %s", query, inside, r.Raw)
			}
		}
	}
	if log := a.Log.String(); !strings.Contains(log, "10.1.2.3:10009") {
		t.Error("no node was asked, or the log does not say which")
	}
}

// spec 05.16 and 03 §3.3: receivers never see fees that they did not pay, and payers never see the receiver's invoice.
func TestEachSeesTheirOwnOfAWrappedPayment(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 150, 0), a.Person("payer", 0, 0)
	post := a.PostBy(author, "a post")
	wallet := a.Wallets.Add(author.ID)
	wallet.Ask.Route = simnode.Route{Fee: 1234, Blocks: 40}
	r := a.Want(payer, `mutation($i: ID!) { zap(item: $i, sats: 100, paymentMethod: P2P) { id invoice { bolt11 } } }`, vars{"i": post})
	id, outer := r.text("zap", "id"), r.text("zap", "invoice", "bolt11")
	const action = `{ id kind state costMsat costSats invoice { bolt11 paymentHash amountMsat receivedMsat } failure { message } }`
	everything := `{ me { creditsMsat satsMsat history(first: 100) { nodes { action ` + action + ` received { msat asset direct reason kind item { id } } } } }
		notifications(first: 100) { nodes { kind item { id } action ` + action + ` } } paidActions(first: 100) { nodes ` + action + ` } }`
	a.PayInvoice(outer)
	a.Advance(number(t, id))
	a.WantState(number(t, id), paidaction.Forwarding)
	if early := a.Want(author, everything, nil).Raw; strings.Contains(early, `"70000"`) {
		t.Errorf("the receiver sees what has not come yet: %s", early)
	}
	a.Run(a.Relay)
	a.AwaitStage(number(t, id), "completed")
	a.WantState(number(t, id), paidaction.Paid)
	a.Drain()
	received := a.Want(author, everything, nil).Raw
	if !strings.Contains(received, `"msat":"70000"`) || !strings.Contains(received, `"ZAP"`) {
		t.Errorf("the receiver is not told: %s", received)
	}
	for what, text := range map[string]string{"the routing fee": "1234", "the routing budget": `"3000"`, "the fee": `"30000"`, "what the payer paid": `"100000"`, "the payer's invoice": outer} {
		if strings.Contains(received, text) {
			t.Errorf("the receiver sees %s: %s", what, received)
		}
	}
	paid := a.Want(payer, everything, nil).Raw + a.Want(payer, `query($id: ID!) { paidAction(id: $id) `+action+` }`, vars{"id": id}).Raw
	if !strings.Contains(paid, outer) {
		t.Errorf("the payer does not see what they paid: %s", paid)
	}
	for what, text := range map[string]string{"the receiver's invoice": wallet.Last().Bolt11, "the routing fee": "1234", "the receiver's share": `"70000"`} {
		if strings.Contains(paid, text) {
			t.Errorf("the payer sees %s: %s", what, paid)
		}
	}
}
