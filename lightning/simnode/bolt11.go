package simnode

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Encoder writes the bolt11 of an invoice created at a moment.
type Encoder func(r paidaction.InvoiceRequest, created time.Time) (string, error)

// EncodeWith makes the node write its bolt11 with encode, for tests that need real ones. Simulated nodes cannot read,
// and so not pay, a bolt11 that this package did not write.
func (n *Node) EncodeWith(encode Encoder) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.encode = encode
}

// signed is what a simulated bolt11 contains: what everybody can read, and whom a payment really goes to.
type signed struct {
	paidaction.Bolt11
	To string // public key; not the destination if that is blinded
	ID int    // like BOLT 11's payment secret: it differs between two invoices of a receiver with the same hash
}

// standardFeatures are those of LND's own invoices.
var standardFeatures = []paidaction.Feature{
	{Bit: 8, Required: true, Known: true}, {Bit: 14, Required: true, Known: true}, {Bit: 17, Known: true},
}

// encodeOwn writes the bolt11 of an invoice of this node.
func (n *Node) encodeOwn(r paidaction.InvoiceRequest, created time.Time) (string, error) {
	memo, hash := r.Memo, ""
	if r.DescriptionHash != ([32]byte{}) {
		memo, hash = "", hex.EncodeToString(r.DescriptionHash[:])
	}
	return encode(signed{To: n.key, Bolt11: paidaction.Bolt11{
		Hash: r.Hash, Destination: n.key, Amount: r.Amount, Description: memo, DescriptionHash: hash, Created: created, Expires: created.Add(r.Expiry),
		CLTVDelta: r.CLTVDelta, Features: standardFeatures,
	}})
}

const (
	prefix   = "lnsim1"
	checksum = 4 // bytes
)

var letters = base32.StdEncoding.WithPadding(base32.NoPadding)

// encode writes a string that looks like a bolt11 to people, but not to a real decoder. Times are in whole seconds, as
// in BOLT 11.
func encode(inv signed) (string, error) {
	inv.Created, inv.Expires = inv.Created.Truncate(time.Second).UTC(), inv.Expires.Truncate(time.Second).UTC()
	said, err := json.Marshal(inv)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(said)
	return prefix + strings.ToLower(letters.EncodeToString(append(said, sum[:checksum]...))), nil
}

func decode(bolt11 string) (inv signed, err error) {
	text, ok := strings.CutPrefix(bolt11, prefix)
	if !ok {
		return inv, paidaction.ErrBolt11
	}
	raw, err := letters.DecodeString(strings.ToUpper(text))
	if err != nil || len(raw) < checksum {
		return inv, paidaction.ErrBolt11
	}
	said, sum := raw[:len(raw)-checksum], sha256.Sum256(raw[:len(raw)-checksum])
	if !bytes.Equal(sum[:checksum], raw[len(said):]) {
		return inv, paidaction.ErrBolt11
	}
	return inv, json.Unmarshal(said, &inv)
}

// publicKey is the public key of this name, always the same.
func publicKey(name string) string {
	sum := sha256.Sum256([]byte("simnode " + name))
	return "02" + hex.EncodeToString(sum[:])
}
