package simnode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Act is what a receiver does with the payments of an invoice.
type Act string

// What receivers do.
const (
	Pays        Act = ""             // reveals the preimage at once
	Holds       Act = "holds"        // holds every part until Settle or Cancel
	Splits      Act = "splits"       // takes the first part at once, and holds the others
	TakesPart   Act = "takes part"   // takes the first part at once, and gives the others back
	HangsProbes Act = "hangs probes" // holds payments whose preimage nobody has
	Refuses     Act = "refuses"      // INCORRECT_PAYMENT_DETAILS
	Unreachable Act = "unreachable"  // NO_ROUTE
	Unsteady    Act = "unsteady"     // no route now, but perhaps later: nodes look for one until their timeout
)

// ErrNotHeld says that the receiver holds nothing under a hash: it never came, was returned, or was taken.
var ErrNotHeld = errors.New("simnode: the receiver holds no such payment")

// Receiver is a payee outside. Receivers are gullible: they take every payment of an invoice, even a second one with
// the same hash, and count. It is safe for concurrent use.
type Receiver struct {
	net *Network
	key string

	issued  map[string]*Ask // by bolt11
	secrets map[paidaction.Hash]paidaction.Preimage
	held    []*htlc
	taken   []*htlc
}

// AddReceiver adds a receiver. Names are unique in a network, among nodes and receivers.
func (net *Network) AddReceiver(name string) *Receiver {
	r := &Receiver{
		net: net, key: publicKey(name), issued: make(map[string]*Ask), secrets: make(map[paidaction.Hash]paidaction.Preimage),
	}
	net.mu.Lock()
	defer net.mu.Unlock()
	net.join(r.key, r)
	return r
}

// Ask says what a receiver's invoice is like. The zero value leaves the amount to the payer.
type Ask struct {
	Amount          paidaction.Msat
	Truncate        bool // to whole sats, as some wallets do
	Memo            string
	DescriptionHash string               // hex; instead of Memo
	Expiry          time.Duration        // 0: an hour
	CLTVDelta       uint32               // 0: 80 blocks
	Blinded         bool                 // hides the receiver's key
	Secretless      bool                 // without a payment secret: no node pays it, but every node estimates its route
	HintsFee        paidaction.Msat      // fee that its hints charge
	Features        []paidaction.Feature // nil: those of LND
	Hash            paidaction.Hash      // zero: of a new preimage. The receiver can take a payment only if it knows the preimage
	Act             Act
	Route           Route // fee and blocks of the route; zero: the sending node's own
	Parts           int   // parts of a payment; 0: one, or two for Splits and TakesPart
}

// Issued is a receiver's invoice. Preimage is zero if the receiver does not know it.
type Issued struct {
	Bolt11   string
	Hash     paidaction.Hash
	Preimage paidaction.Preimage
}

// parts is in how many parts a payment comes, where at least so many were asked for.
func (a Act) parts(asked int) int {
	if a == Splits || a == TakesPart {
		return max(asked, 2)
	}
	return asked
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
	a.Parts = a.Act.parts(a.Parts)
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
		panic(err) // it contains nothing that JSON cannot encode
	}
	r.issued[bolt11] = &a
	return Issued{Bolt11: bolt11, Hash: a.Hash, Preimage: r.secrets[a.Hash]}
}

// Change changes what the receiver does with payments of a hash from now on.
func (r *Receiver) Change(h paidaction.Hash, to Act) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	for _, a := range r.issued {
		if a.Hash == h {
			a.Act, a.Parts = to, to.parts(a.Parts)
		}
	}
}

// Preimage is the preimage of an invoice that the receiver issued; zero if the receiver does not know it.
func (r *Receiver) Preimage(h paidaction.Hash) paidaction.Preimage {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	return r.secrets[h]
}

// Settle takes everything held under a hash; ErrNotHeld if nothing is, for instance because the HTLCs have expired.
func (r *Receiver) Settle(h paidaction.Hash) error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if _, ok := r.secrets[h]; !ok {
		return fmt.Errorf("%w: its preimage is somebody else's", ErrNotHeld)
	}
	return r.resolve(h, r.settle)
}

// Cancel gives back everything held under a hash; ErrNotHeld if nothing is.
func (r *Receiver) Cancel(h paidaction.Hash) error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	return r.resolve(h, func(part *htlc) { part.fail(incorrectDetails) })
}

// Receipt is the outcome of the payments of a hash, from all nodes together.
type Receipt struct {
	Received paidaction.Msat // taken
	Held     paidaction.Msat
	Payments int // payments of which at least a part was taken; more than one means that it was paid twice
}

// Receipt returns what the receiver got under a hash.
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

// resolve ends what is held under a hash. net.mu is held, here and in everything below.
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
