package wallet

import (
	"encoding/binary"
	"errors"

	"github.com/a-seed-a7aed72f/holdfast/internal/seal"
)

// sealLabel is the label of the key that encrypts settings.
const sealLabel = "holdfast wallet settings 1"

// place is where settings are stored. Sealed settings open only in their own place, so that somebody who can write to
// the table cannot give one user's wallet to another.
type place struct {
	wallet int64
	user   int64
	kind   Kind
}

func (p place) bytes() []byte {
	b := []byte{seal.KeyNumber}
	b = binary.BigEndian.AppendUint64(b, uint64(p.wallet))
	b = binary.BigEndian.AppendUint64(b, uint64(p.user))
	return append(b, p.kind...)
}

var errSealed = errors.New("wallet: the settings cannot be opened: they are another wallet's, or were sealed with another secret")
