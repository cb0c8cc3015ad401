package lnurl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// leastSendable is one sat: RECEIVE takes whole sats.
const leastSendable paidaction.Msat = 1000

// payable is the answer when a wallet looks an address up (LUD-06, 12, 16, 18).
type payable struct {
	Tag            string           `json:"tag"`
	Callback       string           `json:"callback"`
	MinSendable    int64            `json:"minSendable"`
	MaxSendable    int64            `json:"maxSendable"`
	Metadata       string           `json:"metadata"`
	CommentAllowed int              `json:"commentAllowed"`
	PayerData      map[string]offer `json:"payerData"`
}

// offer says whether payers must give one piece of data about themselves, or may.
type offer struct {
	Mandatory bool `json:"mandatory"`
}

func (s *server) describe(ctx context.Context, r *http.Request, _ string) (any, error) {
	user, err := s.receiver(ctx, r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	metadata, err := s.metadata(user.Name)
	if err != nil {
		return nil, err
	}
	return payable{
		Tag: "payRequest", Callback: s.Public.JoinPath("lnurlp", user.Name).String(), MinSendable: int64(leastSendable), MaxSendable: int64(s.Most),
		Metadata: metadata, CommentAllowed: community.MaxReceiveComment,
		PayerData: map[string]offer{"name": {}, "identifier": {}, "email": {}},
	}, nil
}

// receiver returns the user with this address. Names are lower case; some wallets write them otherwise.
func (s *server) receiver(ctx context.Context, name string) (db.Usr, error) {
	nobody := paidaction.Errorf(paidaction.CodeNotFound, "Nobody has this address.")
	if len(name) > 64 || strings.ContainsRune(name, 0) {
		return db.Usr{}, nobody
	}
	users, err := db.New(s.Pool).UsersByName(ctx, []string{strings.ToLower(strings.ToValidUTF8(name, "?"))})
	if err != nil {
		return db.Usr{}, fmt.Errorf("look up the receiver: %w", err)
	}
	if len(users) == 0 {
		return db.Usr{}, nobody
	}
	return users[0], nil
}

// metadata is what the payer's wallet shows, and what the invoice carries the hash of: it is the same text each time.
func (s *server) metadata(name string) (string, error) {
	address := name + "@" + s.Public.Host
	text, err := json.Marshal([][2]string{{"text/plain", "Pay to " + address}, {"text/identifier", address}})
	if err != nil {
		return "", fmt.Errorf("write the metadata: %w", err)
	}
	return string(text), nil
}

// invoiced is the answer when a wallet asks for an invoice (LUD-06, 21).
type invoiced struct {
	Bolt11 string   `json:"pr"`
	Routes []string `json:"routes"` // always empty: wallets expect it
	Verify string   `json:"verify"`
}

func (s *server) order(ctx context.Context, r *http.Request, client string) (any, error) {
	user, err := s.receiver(ctx, r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "The request cannot be read.")
	}
	o, err := readOrder(query, s.Most)
	if err != nil {
		return nil, err
	}
	metadata, err := s.metadata(user.Name)
	if err != nil {
		return nil, err
	}
	described := sha256.Sum256([]byte(metadata + o.payerData))
	pa, err := s.Engine.Pay(ctx, paidaction.Request{
		Kind: community.KindReceive, Caller: paidaction.Caller{Client: client},
		Args: community.ReceiveArgs{User: user.ID, Msat: int64(o.amount), Comment: o.comment, Sender: o.sender, Described: described[:]},
	})
	if err != nil {
		return nil, err
	}
	s.Log.DebugContext(ctx, "an action was asked for", "action", pa.ID, "kind", pa.Kind, "flow", pa.Flow, "state", pa.State)
	if pa.Invoice == nil || pa.Invoice.Bolt11 == "" {
		return nil, fmt.Errorf("action %d has no invoice to hand out", pa.ID)
	}
	return invoiced{Bolt11: pa.Invoice.Bolt11, Routes: []string{}, Verify: s.verifyURL(pa.Invoice.Hash)}, nil
}
