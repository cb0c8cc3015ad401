package lnurl

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// verified says what became of a payment (LUD-21).
type verified struct {
	Status   string  `json:"status"`
	Settled  bool    `json:"settled"`
	Preimage *string `json:"preimage"` // null until it is settled: it is the payer's proof
	Bolt11   string  `json:"pr"`
}

// verifyURL is the URL that tells what became of the payment of one invoice. Only the wallet that asked for the invoice
// was given it. The hash alone opens nothing: everybody who forwards the payment knows it.
func (s *server) verifyURL(h paidaction.Hash) string {
	return s.Public.JoinPath("lnurlp", "verify", h.String(), hex.EncodeToString(s.proof(h))).String()
}

// proof is the part of a verify URL that shows that the URL, and so the invoice, was made here.
func (s *server) proof(h paidaction.Hash) []byte {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte("holdfast lnurl verify v1"))
	mac.Write(h[:])
	return mac.Sum(nil)[:16]
}

func (s *server) verify(ctx context.Context, r *http.Request, _ string) (any, error) {
	unknown := paidaction.Errorf(paidaction.CodeNotFound, "There is no such payment.")
	hash, proof, ok := readVerify(r.PathValue("hash"), r.PathValue("proof"))
	if !ok || !hmac.Equal(proof, s.proof(hash)) {
		return nil, unknown
	}
	row, err := db.New(s.Pool).ReceivedByHash(ctx, hash[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("look up a payment: %w", err)
	}
	answer := verified{Status: "OK", Settled: row.Settled, Bolt11: row.Bolt11}
	if row.Settled {
		answer.Preimage = new(hex.EncodeToString(row.Preimage))
	}
	return answer, nil
}

// readVerify reads the two parts of a verify URL. It takes each only in exactly the form in which we write it.
func readVerify(hash, proof string) (h paidaction.Hash, p []byte, ok bool) {
	raw, err := hex.DecodeString(hash)
	if err != nil || copy(h[:], raw) != len(h) || hash != h.String() {
		return paidaction.Hash{}, nil, false
	}
	p, err = hex.DecodeString(proof)
	return h, p, err == nil && len(p) == 16
}
