package simnode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Act is what a receiver does with payments of an invoice.
type Act string

// What receivers do.
const (
	Pays        Act = ""             // reveals the preimage at once
	Holds       Act = "holds"        // holds every part until Settle or Cancel
	Splits      Act = "splits"       // takes the first part at once, and holds the others
	TakesPart   Act = "takes part"   // takes the first part at once, and gives the others back
	HangsProbes Act = "hangs probes" // holds what nobody has the preimage of
	Refuses     Act = "refuses"      // INCORRECT_PAYMENT_DETAILS
	Unreachable Act = "unreachable"  // NO_ROUTE
	Unsteady    Act = "unsteady"     // no route now, but perhaps later: nodes look for one until their timeout
)

// ErrNotHeld says that the receiver holds nothing under a hash: it never came, went back, or was taken.
var ErrNotHeld = errors.New("simnode: the receiver holds no such payment")

// Receiver is somebody outside who is paid. Receivers are gullible: one takes every payment of an invoice, also a second one of
// the same hash, and counts. It is safe for concurrent use.
type Receiver struct {
	net *Network
	key string

	issued  map[string]*Ask // by bolt11
	secrets map[paidaction.Hash]paidaction.Preimage
	held    []*htlc
	taken   []*htlc
}

// AddReceiver adds somebody who can be paid. Names are unique in a network, those of nodes included.
func (net *Network) AddReceiver(name string) *Receiver {
	r := &Receiver{
		net: net, key: publicKey(name), issued: make(map[string]*Ask), secrets: make(map[paidaction.Hash]paidaction.Preimage),
	}
	net.mu.Lock()
	defer net.mu.Unlock()
	net.join(r.key, r)
	return r
}

// Ask says what an invoice of a receiver is like. The zero value leaves the amount to the payer.
type Ask struct {
	Amount          paidaction.Msat
	Truncate        bool // to whole sats, as some wallets do
	Memo            string
	DescriptionHash string               // hex; in place of Memo
	Expiry          time.Duration        // 0: an hour
	CLTVDelta       uint32               // 0: 80 blocks
	Blinded         bool                 // hides the receiver's key
	Secretless      bool                 // without a payment secret: no node pays it, and none refuses to estimate its route
	HintsFee        paidaction.Msat      // that its hints charge
	Features        []paidaction.Feature // nil: those of LND
	Hash            paidaction.Hash      // zero: of a new preimage. The receiver can take a payment only if it knows the preimage
	Act             Act
	Route           Route // what it takes to get there; zero: what the sending node's routes take
	Parts           int   // that a payment comes in; 0: one, or two for Splits and TakesPart
}

// Issued is an invoice of a receiver. Preimage is zero where the receiver does not know it.
type Issued struct {
	Bolt11   string
	Hash     paidaction.Hash
	Preimage paidaction.Preimage
}

// Issue makes an invoice.
func (r *Receiver) Issue(a Ask) Issued {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	r.net.issued++
	if a.Hash == (paidaction.Hash{}) {
		p := paidaction.Preimage(sha256.Sum256(fmt.Appendf(nil, "%s %d", r.key, r.net.issued)))
		a.Hash = p.Hash()
		r.secrets[a.Hash] = p
	}
	if a.Truncate {
		a.Amount -= a.Amount % 1000
	}
	if a.Expiry == 0 {
		a.Expiry = time.Hour
	}
	if a.CLTVDelta == 0 {
		a.CLTVDelta = defaultCLTV
	}
	if a.Features == nil {
		a.Features = standardFeatures
	}
	if a.Act == Splits || a.Act == TakesPart {
		a.Parts = max(a.Parts, 2)
	}
	now := r.net.clock()
	inv := signed{To: r.key, ID: r.net.issued, Bolt11: paidaction.Bolt11{
		Hash: a.Hash, Destination: r.key, Amount: a.Amount, Description: a.Memo, DescriptionHash: a.DescriptionHash, Created: now,
		Expires: now.Add(a.Expiry), CLTVDelta: a.CLTVDelta, Blinded: a.Blinded, Features: a.Features,
		Secretless: a.Secretless, HintsFee: a.HintsFee,
	}}
	if a.Blinded {
		inv.Destination = publicKey(fmt.Sprintf("%s hides as %d", r.key, inv.ID))
	}
	bolt11, err := encode(inv)
	if err != nil {
		panic(err) // it holds nothing that JSON cannot
	}
	r.issued[bolt11] = &a
	return Issued{Bolt11: bolt11, Hash: a.Hash, Preimage: r.secrets[a.Hash]}
}

// Change makes the receiver do something else with what comes from now on for a hash.
func (r *Receiver) Change(h paidaction.Hash, to Act) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	for _, a := range r.issued {
		if a.Hash == h {
			a.Act = to
		}
	}
}

// Preimage is what the receiver knows of an invoice that they issued; zero where they do not.
func (r *Receiver) Preimage(h paidaction.Hash) paidaction.Preimage {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	return r.secrets[h]
}

// Settle takes all that is held under a hash; ErrNotHeld if nothing is, as after the HTLCs have expired.
func (r *Receiver) Settle(h paidaction.Hash) error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if _, ok := r.secrets[h]; !ok {
		return fmt.Errorf("%w: its preimage is somebody else's", ErrNotHeld)
	}
	return r.resolve(h, r.settle)
}

// Cancel gives back all that is held under a hash; ErrNotHeld if nothing is.
func (r *Receiver) Cancel(h paidaction.Hash) error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	return r.resolve(h, func(part *htlc) { part.fail(incorrectDetails) })
}

// Receipt is what came of the payments of a hash, from all nodes together.
type Receipt struct {
	Received paidaction.Msat // taken
	Held     paidaction.Msat
	Payments int // of which a part was taken at least: more than one has been paid twice
}

// Receipt says what the receiver got under a hash.
func (r *Receiver) Receipt(h paidaction.Hash) (got Receipt) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	type payment struct {
		from *Node
		id   uint64
	}
	payments := map[payment]bool{}
	for _, part := range r.taken {
		if part.hash == h {
			got.Received += part.msat
			payments[payment{part.from, part.payment}] = true
		}
	}
	got.Payments = len(payments)
	for _, part := range r.held {
		if part.hash == h && !part.done {
			got.Held += part.msat
		}
	}
	return got
}

// resolve ends what is held under a hash. net.mu is held, as it is in all that follows.
func (r *Receiver) resolve(h paidaction.Hash, end func(*htlc)) error {
	err := ErrNotHeld
	r.held = slices.DeleteFunc(r.held, func(part *htlc) bool {
		if part.hash == h && !part.done {
			end(part)
			err = nil
		}
		return part.done
	})
	return err
}

func (r *Receiver) settle(part *htlc) {
	part.settle(r.secrets[part.hash])
	r.taken = append(r.taken, part)
}

func (r *Receiver) reach(bolt11 string) conditions {
	a, ok := r.issued[bolt11]
	switch {
	case !ok, a.Act == Unreachable:
		return conditions{failure: noRoute}
	case a.Act == Unsteady:
		return conditions{looking: true}
	}
	return conditions{probes: a.Act == HangsProbes, fee: a.Route, parts: a.Parts}
}

func (r *Receiver) take(part *htlc) {
	_, known := r.secrets[part.hash]
	a := r.issued[part.bolt11]
	switch {
	case a.Act == Holds, a.Act == Splits && part.index > 0:
		r.held = append(r.held, part)
	case a.Act == Refuses, a.Act == TakesPart && part.index > 0, !known:
		part.fail(incorrectDetails)
	default:
		r.settle(part)
	}
}
