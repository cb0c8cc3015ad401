package simnode

import (
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Encoder writes the bolt11 of an invoice created at a moment.
type Encoder func(r paidaction.InvoiceRequest, created time.Time) (string, error)

// EncodeWith makes the node write its bolt11 with encode, for tests that need real ones.
func (n *Node) EncodeWith(encode Encoder) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.encode = encode
}

// encodeBolt11 writes a string that looks like a bolt11 to people and to no decoder: lnsim1, the hash, the amount in msat.
func encodeBolt11(r paidaction.InvoiceRequest, _ time.Time) (string, error) {
	return fmt.Sprintf("lnsim1%sp%d", r.Hash, r.Amount), nil
}
