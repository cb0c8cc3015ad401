package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Wrap, Resolve and the dispatch (prepare) ask the same here: may this invoice be paid, and on what terms? Only the
// node's own decoder decides what a bolt11 says (spec 03 §3.2).

// Wrap implements paidaction.Relay.
func (r *Relay) Wrap(ctx context.Context, q paidaction.WrapRequest) (paidaction.Forward, error) {
	if r.Wallets == nil || len(r.Nodes.Names()) == 0 || !wrap.Fits(q.Share) { // no wallet is to blame for the share
		return paidaction.Forward{}, paidaction.ErrNoReceiver
	}
	has, err := r.Wallets.Has(ctx, q.Receiver)
	if err != nil {
		return paidaction.Forward{}, fmt.Errorf("look for the receiver's wallets: %w", err)
	}
	if !has {
		return paidaction.Forward{}, paidaction.ErrNoReceiver
	}
	sending, err := r.sending(ctx, db.New(r.Pool))
	if err != nil {
		return paidaction.Forward{}, err
	}
	if len(sending) == 0 { // nothing would be forwarded before the payer has their money back
		return paidaction.Forward{}, paidaction.ErrNoReceiver
	}
	sending = slices.DeleteFunc(sending, func(name string) bool { return r.crowded(ctx, name) })
	if len(sending) == 0 {
		return paidaction.Forward{}, fmt.Errorf("%w: %w", paidaction.ErrNoReceiver, r.counted(errCrowded))
	}
	sending = slices.DeleteFunc(sending, func(name string) bool { return r.low(ctx, name) })
	if len(sending) == 0 {
		return paidaction.Forward{}, fmt.Errorf("%w: %w", paidaction.ErrNoReceiver, r.counted(errLow))
	}
	issuer, err := r.Issuers.Node(q.Node)
	if err != nil {
		return paidaction.Forward{}, err
	}
	limited, cancel := context.WithTimeout(ctx, r.Settings.LookTimeout)
	defer cancel()
	chain, err := issuer.Chain(limited)
	if ctx.Err() != nil {
		return paidaction.Forward{}, ctx.Err() // the caller is gone: that says nothing about the node
	}
	if err != nil {
		return paidaction.Forward{}, errAway(fmt.Errorf("ask node %s for the chain: %w", q.Node, err))
	}
	q.Calling()
	asking := r.asking()
	var f paidaction.Forward
	err = r.Wallets.Each(ctx, q.Receiver, q.Genesis, q.Share, q.Memo, func(wallet int64, bolt11 string) error {
		var err error
		f, err = r.wrapped(ctx, q, bolt11, chain, asking, sending)
		f.Receiver, f.Wallet = q.Receiver, wallet
		return forOwner(r.counted(err))
	})
	return f, err
}

// forOwner words an error so that a wallet's owner may read which rule its invoice breaks. It contains no figures: the
// receiver must not learn what a payer pays beyond their share (spec 05.16). Errors that are not the invoice's fault
// stay as they are.
func forOwner(err error) error {
	var v *wrap.Violation
	switch {
	case errors.As(err, &v):
		return paidaction.Errorf(paidaction.Code(v.Code), "The invoice cannot be used: %s.", v.Why).Because(err)
	case errors.Is(err, paidaction.ErrBolt11), errors.Is(err, paidaction.ErrNoRoute):
		return paidaction.Errorf("WALLET_BAD_INVOICE", "The wallet's invoice could not be used for a payment.").Because(err)
	}
	return err
}

// counted counts what a rule refused.
func (r *Relay) counted(err error) error {
	if rule, ok := ruleOf(err); ok {
		r.Metrics.refused.WithLabelValues(rule).Inc()
	}
	return err
}

// ruleOf is the rule that an invoice breaks, if err says so.
func ruleOf(err error) (string, bool) {
	var v *wrap.Violation
	if errors.As(err, &v) {
		return string(v.Code), true
	}
	return "", false
}

// wrapped is what our invoice around this one must look like.
func (r *Relay) wrapped(ctx context.Context, q paidaction.WrapRequest, bolt11 string, chain paidaction.Chain, a *asking,
	sending []string) (paidaction.Forward, error) {
	inner, err := r.decode(ctx, a, bolt11)
	if err != nil {
		return paidaction.Forward{}, err
	}
	facts := wrap.Facts{Inner: inner, Requested: q.Share, Outer: q.Outer, Now: r.now(), Chain: chain}
	if facts.Own, err = r.own(ctx, a, inner, r.Nodes.Ours(), q.Node); err != nil {
		return paidaction.Forward{}, err
	}
	if facts.HashUsed, err = r.used(ctx, a, inner.Hash); err != nil {
		return paidaction.Forward{}, err
	}
	if err := r.Rules.CheckInner(facts); err != nil {
		return paidaction.Forward{}, err
	}
	awake := a.nodes()
	sending = slices.DeleteFunc(slices.Clone(sending), func(name string) bool { return !slices.Contains(awake, name) })
	terms, err := r.route(ctx, sending, q.Receiver, bolt11, facts, q.Outer-q.Promised-inner.Amount)
	if err != nil {
		return paidaction.Forward{}, err
	}
	return paidaction.Forward{Bolt11: bolt11, Hash: inner.Hash, Amount: inner.Amount, Budget: terms.Budget, FinalCLTV: inner.CLTVDelta,
		Expires: inner.Expires, Until: terms.Expires, CLTVDelta: terms.CLTVDelta}, nil
}

// used reports whether a hash was wrapped or withdrawn before, or a node knows a payment with it, since our own records
// may be lost. If the preimage is known already, we would take the payer's payment for nothing.
func (r *Relay) used(ctx context.Context, a *asking, h paidaction.Hash) (bool, error) {
	_, err := db.New(r.Pool).ForeignHashUse(ctx, h[:])
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return false, err
	}
	err = r.notPaid(ctx, a, h)
	if errors.Is(err, paidaction.Refused(paidaction.CodeDuplicate)) {
		return true, nil
	}
	return false, err
}

// decode lets the nodes that may pay an invoice read it. ErrBolt11 where none can and at least one says so;
// LIGHTNING_UNAVAILABLE where none answers.
func (r *Relay) decode(ctx context.Context, a *asking, bolt11 string) (paidaction.Bolt11, error) {
	var said []error
	for _, name := range a.nodes() {
		node, err := r.Nodes.Sender(name)
		var inv paidaction.Bolt11
		if err == nil {
			err = a.ask(ctx, r.Settings.LookTimeout, name, func(ctx context.Context) (err error) {
				inv, err = node.DecodeInvoice(ctx, bolt11)
				return err
			})
		}
		if err == nil {
			return inv, nil
		}
		said = append(said, err)
	}
	if ctx.Err() != nil {
		return paidaction.Bolt11{}, context.Cause(ctx)
	}
	err := fmt.Errorf("no node reads the invoice: %w", errors.Join(said...))
	if !errors.Is(err, paidaction.ErrBolt11) {
		err = errAway(err)
	}
	return paidaction.Bolt11{}, err
}

// own reports whether one of these nodes of ours issued an invoice. A blinded invoice does not show its node's key: then
// each node is asked for the hash. The node that is to issue ours around it, if any, is asked always: it may have a hold
// invoice of another program under this hash, such as one for a swap. It would not open a second one, and we would take
// the first for ours, and its payment for our payer's.
func (r *Relay) own(ctx context.Context, a *asking, inv paidaction.Bolt11, nodes []string, issuer string) (bool, error) {
	if _, err := db.New(r.Pool).InvoiceOfHash(ctx, inv.Hash[:]); !errors.Is(err, pgx.ErrNoRows) {
		return true, err
	}
	for _, name := range nodes {
		node, err := r.Nodes.Sender(name)
		if err != nil {
			return false, err
		}
		keys, err := r.keys(ctx, node, name)
		if err != nil {
			return false, errAway(err)
		}
		if slices.Contains(keys, inv.Destination) {
			return true, nil
		}
		if !inv.Blinded && name != issuer {
			continue
		}
		err = a.ask(ctx, r.Settings.LookTimeout, name, func(ctx context.Context) error {
			_, err := node.LookupInvoice(ctx, inv.Hash)
			return err
		})
		if err == nil {
			return true, nil
		} else if !errors.Is(err, paidaction.ErrInvoiceNotFound) {
			return false, errAway(err)
		}
	}
	return false, nil
}

// keys are the public keys that a node is known by: more than one if another node answers under its name. Stored keys
// suffice, so that a node that is down holds up no payment through another one.
func (r *Relay) keys(ctx context.Context, node paidaction.SendingNode, name string) ([]string, error) {
	known, err := db.New(r.Pool).GetNode(ctx, name)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("read what is known of node %s: %w", name, err)
	case err == nil && known.PublicKey != nil && known.OtherKey != nil:
		return []string{*known.PublicKey, *known.OtherKey}, nil
	case err == nil && known.PublicKey != nil:
		return []string{*known.PublicKey}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Settings.AskTimeout)
	defer cancel()
	key, err := node.PublicKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask node %s for its key: %w", name, err)
	}
	if !slices.Contains(r.Nodes.Names(), name) { // whoever leases nodes remembers those that send
		if _, err := db.New(r.Pool).MeetNode(ctx, db.MeetNodeParams{Name: name, PublicKey: &key, At: r.now()}); err != nil {
			return nil, fmt.Errorf("write down who node %s is: %w", name, err)
		}
	}
	return []string{key}, nil
}

func errAway(cause error) error {
	return paidaction.Errorf(paidaction.CodeLightningUnavailable, "A Lightning node cannot be reached at the moment. Try again in a minute.").Because(cause)
}

// route is the first route within the budget that a node finds to the receiver, with the terms of an outer invoice for
// it. The budget is at most spare: what the outer amount exceeds the inner one and what others are promised. The node
// that sends looks for a route again, under the same limits.
func (r *Relay) route(ctx context.Context, sending []string, receiver int64, bolt11 string, facts wrap.Facts, spare paidaction.Msat) (wrap.Terms, error) {
	if len(sending) == 0 {
		return wrap.Terms{}, errAway(errors.New("no node that sends payments answers"))
	}
	var said []error
	for _, name := range sending {
		request := r.Rules.Probe(bolt11, facts)
		request.FeeLimit = min(request.FeeLimit, max(spare, 0))
		var err error
		facts.Route, err = r.probe(ctx, name, receiver, request, facts.Inner)
		var terms wrap.Terms
		if err == nil {
			facts.Now = r.now() // asking nodes may have taken long
			terms, err = r.Rules.Wrap(facts)
		}
		if terms.Budget = min(terms.Budget, spare); err == nil && facts.Route.Fee > terms.Budget {
			err = fmt.Errorf("%w within the budget: one is for %d msat, and %d are left for it", paidaction.ErrNoRoute, facts.Route.Fee, terms.Budget)
		}
		if err == nil {
			return terms, nil
		}
		if said = append(said, err); errors.Is(err, errProbing) {
			break // every other node's probe would hang as well
		}
	}
	return wrap.Terms{}, errors.Join(said...)
}

// Resolve implements paidaction.Relay.
func (r *Relay) Resolve(ctx context.Context, p paidaction.Payee) (paidaction.Payout, error) {
	if len(r.Nodes.Names()) == 0 {
		return paidaction.Payout{}, paidaction.Errorf(paidaction.CodeMethodUnavailable, "Nothing can be withdrawn here: this service sends no payments.")
	}
	if p.FeeLimit < r.Settings.MinFee {
		return paidaction.Payout{}, paidaction.Errorf(paidaction.CodeInvalidAmount, "Allow a routing fee of at least %d sats.", r.Settings.MinFee.CeilSats())
	}
	bolt11 := strings.TrimPrefix(strings.ToLower(p.To), "lightning:")
	if strings.Contains(p.To, "@") || strings.HasPrefix(bolt11, "lnurl") || strings.HasPrefix(bolt11, "https://") {
		var err error
		if bolt11, err = r.address(ctx, p); err != nil {
			return paidaction.Payout{}, err
		}
	} else if p.Comment != "" {
		return paidaction.Payout{}, paidaction.Errorf(paidaction.CodeInvalidInput, "An invoice takes no comment, only an address does. Leave the comment out.")
	}
	asking := r.asking()
	inv, err := r.decode(ctx, asking, bolt11)
	if errors.Is(err, paidaction.ErrBolt11) {
		err = paidaction.Errorf(paidaction.CodeInvalidInput, "This is not an invoice or address that can be paid from here.").Because(err)
	}
	if err != nil {
		return paidaction.Payout{}, err
	}
	out := paidaction.Payout{Bolt11: bolt11, Hash: inv.Hash, Amount: inv.Amount, Budget: p.FeeLimit, FinalCLTV: inv.CLTVDelta, Expires: inv.Expires}
	return r.payable(ctx, p, inv, out, asking)
}

func (r *Relay) address(ctx context.Context, p paidaction.Payee) (string, error) {
	if r.Wallets == nil {
		return "", paidaction.Errorf(paidaction.CodeInvalidInput, "Addresses cannot be paid here. Use an invoice.")
	}
	if p.Amount <= 0 {
		return "", paidaction.Errorf(paidaction.CodeInvalidAmount, "Say how many sats to send to the address.")
	}
	return r.Wallets.Address(ctx, p.To, p.Amount, p.Comment)
}

// notFor refuses an invoice for another amount than was asked for. What is no whole sat is said in msat: rounded, the
// two could look the same.
func notFor(amount, asked paidaction.Msat) error {
	if amount%1000 != 0 || asked%1000 != 0 {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "The invoice is for %s msat, not for %s.", amount, asked)
	}
	return paidaction.Errorf(paidaction.CodeInvalidAmount, "The invoice is for %d sats, not for %d.", amount.Sats(), asked.Sats())
}

// payable refuses what a withdrawal may not pay. Our own plain invoice is paid inside. A payment of any other invoice
// of ours would come back to us, or go to the receiver whose invoice it wraps.
func (r *Relay) payable(ctx context.Context, p paidaction.Payee, inv paidaction.Bolt11, out paidaction.Payout, a *asking) (paidaction.Payout, error) {
	switch {
	case inv.Amount <= 0:
		return out, paidaction.Errorf(paidaction.CodeInvalidAmount, "The invoice names no amount. Use one that does.")
	case p.Amount != 0 && p.Amount != inv.Amount:
		return out, notFor(inv.Amount, p.Amount)
	case inv.Amount > r.Settings.WithdrawLimit-p.FeeLimit: // the fee can go to the payee, by a node of theirs
		return out, paidaction.Errorf(paidaction.CodeInvalidAmount, "At most %d sats can be withdrawn at a time, with what routing may cost.", r.Settings.WithdrawLimit.Sats())
	case !r.now().Before(inv.Expires):
		return out, paidaction.Errorf(paidaction.CodeInvalidInput, "The invoice has expired. Use a new one.")
	}
	var unfit *wrap.Violation
	if err := r.Rules.CheckAlone(inv, r.now()); errors.As(err, &unfit) {
		return out, paidaction.Errorf(paidaction.CodeInvalidInput, "The invoice cannot be paid here: %s. Use another one.", unfit.Why).Because(r.counted(err))
	}
	ours, err := db.New(r.Pool).InvoiceOfHash(ctx, inv.Hash[:])
	switch {
	case err == nil && paidaction.Flow(ours.Flow) == paidaction.FlowOptimistic:
		out.Inside, out.Budget = ours.ActionID, 0
		return out, r.isOpen(ctx, ours.Node, inv.Hash)
	case err == nil:
		return out, paidaction.Errorf(paidaction.CodeInvalidInput, "This is an invoice of this service: it cannot be paid from a balance here.")
	case !errors.Is(err, pgx.ErrNoRows):
		return out, fmt.Errorf("look for the invoice among ours: %w", err)
	}
	own, err := r.own(ctx, a, inv, r.Nodes.Names(), "")
	if err == nil && own {
		err = paidaction.Errorf(paidaction.CodeInvalidInput, "This is an invoice of this service: it cannot be paid from a balance here.")
	}
	if err != nil {
		return out, err
	}
	return out, r.notPaid(ctx, a, inv.Hash)
}

// isOpen refuses to pay an invoice of ours inside that its node says is settled or cancelled: its action may wait for
// days before anybody knows what it was paid with (paidaction.NodeInvoice.Awaits), and the balance of who pays with it.
// A node that does not answer is passed over: the invoice is cancelled before anything counts.
func (r *Relay) isOpen(ctx context.Context, name string, h paidaction.Hash) error {
	node, err := r.Issuers.Node(name)
	if err != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, r.Settings.LookTimeout)
	defer cancel()
	if now, err := node.LookupInvoice(limited, h); err == nil && now.State != paidaction.InvoiceOpen {
		return paidaction.Errorf(paidaction.CodeDuplicate, "This invoice can no longer be paid.")
	}
	return nil
}

// notPaid asks every node whether it has paid, or is paying, a hash already, since our own records may be lost. The
// records decide, by a unique index; if a node is down, we go on without its word. If no node can be asked, nothing
// could be sent either. None is left out because it has just hung: if it has paid the hash, we would take a payer's
// payment for nothing.
func (r *Relay) notPaid(ctx context.Context, a *asking, h paidaction.Hash) error {
	names := r.Nodes.Names()
	questions, errs, found := make([]func() error, len(names)), make([]error, len(names)), make([]bool, len(names))
	for i, name := range names {
		node, err := r.Nodes.Sender(name)
		if err != nil {
			return err
		}
		questions[i] = func() error {
			errs[i] = a.ask(ctx, r.Settings.AskTimeout, name, func(ctx context.Context) error {
				now, err := r.present(ctx, node, h)
				found[i] = err == nil && now.State != paidaction.PaymentFailed
				if errors.Is(err, paidaction.ErrPaymentNotFound) {
					err = nil
				}
				return err
			})
			return nil
		}
	}
	_ = r.together(questions...)
	if slices.Contains(found, true) {
		r.Metrics.already.Inc()
		return paidaction.Errorf(paidaction.CodeDuplicate, "This invoice is being paid, or was already paid.")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !slices.Contains(errs, nil) {
		return errAway(errors.Join(errs...))
	}
	return nil
}

var (
	errBehind    = errors.New("the node is behind the chain")
	errElsewhere = errors.New("not the sending node's fault")
)

// errWithdrawn says that a receiver does not want to be paid by this wallet any more.
var errWithdrawn = &wrap.Violation{Code: "WALLET_GONE", Why: "the wallet that issued it was removed or disabled"}

// wanted is nil while the receiver of a forward has the wallet that issued the invoice.
func (r *Relay) wanted(ctx context.Context, row db.RelayPayment) error {
	if row.WalletID == nil || r.Wallets == nil {
		return nil
	}
	asked, err := r.Wallets.Asked(ctx, *row.WalletID)
	if err != nil {
		return fmt.Errorf("%w: %w", errElsewhere, err)
	}
	if !asked {
		return r.counted(errWithdrawn)
	}
	return nil
}

// prepare checks everything again right before a payment is sent: what was true when the invoice was accepted may not
// be true any more (spec 03 §3.2, spec 05.2).
func (r *Relay) prepare(ctx context.Context, c *claim) (paidaction.PaymentRequest, error) {
	request := paidaction.PaymentRequest{Bolt11: c.row.Bolt11, FeeLimit: paidaction.Msat(c.row.BudgetMsat), Timeout: r.Settings.SendTimeout}
	if c.pinned {
		if err := r.trusted(ctx, c.node, c.attempt.Node, c.row.ID); err != nil {
			return request, err
		}
	}
	forward := c.row.ReceiverID != nil
	if forward && !c.pinned && r.crowded(ctx, c.attempt.Node) {
		return request, r.counted(errCrowded)
	}
	var inner paidaction.Bolt11
	var chain paidaction.Chain
	var held paidaction.NodeInvoice
	err := r.together(func() (err error) {
		if inner, err = c.node.DecodeInvoice(ctx, c.row.Bolt11); err != nil {
			return fmt.Errorf("read the invoice again: %w", err)
		}
		return nil
	}, func() (err error) {
		if chain, err = c.node.Chain(ctx); err != nil {
			return fmt.Errorf("ask for the chain: %w", err)
		}
		return nil
	}, func() (err error) {
		if !forward {
			return nil
		}
		if held, err = r.outer(ctx, c.row, c.issuer); err != nil {
			return fmt.Errorf("%w: %w", errElsewhere, err)
		}
		return nil
	}, func() error { return r.wanted(ctx, c.row) })
	if err != nil {
		return request, err
	}
	if inner.Hash != hashOf(c.row) || inner.Amount != paidaction.Msat(c.row.AmountMsat) {
		// The node's software may be another version, or it is on another network. In any case this is not what was
		// agreed to.
		return request, &wrap.Violation{Code: "DIFFERS", Why: "the node reads another hash or amount in the invoice than when it was accepted"}
	}
	if !chain.Synced {
		return request, errBehind
	}
	if !forward {
		return request, nil
	}
	// Whether the hash is used elsewhere needs no look here: no other payment of ours can have it, and the nodes are
	// asked for it at the same time (send).
	facts := wrap.Facts{Inner: inner, Requested: inner.Amount, Outer: c.cost, Own: slices.Contains(c.ours, inner.Destination), Now: r.now(),
		Chain: chain, Held: held, OuterCLTV: c.outerCLTV, Budget: request.FeeLimit}
	request, err = r.Rules.Forward(c.row.Bolt11, facts)
	if rule, _ := ruleOf(err); rule == string(wrap.Expired) && r.ConfirmClock(ctx) != nil {
		// That would end the payment, by a clock that is not to be believed. The node refuses by its own what has
		// expired.
		facts.Now = inner.Created
		request, err = r.Rules.Forward(c.row.Bolt11, facts)
	}
	return request, r.counted(err)
}
