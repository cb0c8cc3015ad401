package lnurl

import (
	"context"
	"net/http"
	"net/url"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// done is the positive answer of LNURL.
type done struct {
	Status string `json:"status"`
}

// sign takes a challenge that a wallet has signed (LUD-04). The wallet gets nothing for it: the key is for the browser
// that asked for the challenge.
func (s *server) sign(ctx context.Context, r *http.Request, _ string) (any, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "The request cannot be read.")
	}
	answer, err := keyauth.Read(query)
	if err != nil {
		return nil, err
	}
	// An answer locks its challenge. Anybody can send as many to one challenge as they like, from many addresses: these
	// wait here for one another, rather than each with a database connection.
	give, err := s.signing.Take(ctx, string(answer.K1[:]), nil)
	if err != nil {
		return nil, err
	}
	defer give()
	if err := keyauth.Sign(ctx, s.Pool, answer, s.Engine.Now()); err != nil {
		return nil, err
	}
	return done{"OK"}, nil
}
