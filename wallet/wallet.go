// Package wallet asks the wallets of those who receive payments for invoices (spec 03 §3.1). A user has several
// wallets, in an order. Each is tested before it is saved, its settings are encrypted at rest, and the result of every
// call is logged for its owner.
//
// The servers behind wallets are strangers, and so are those who name them. Everything that leaves goes through
// internal/outside, and of what comes back only the invoice is used. No text of a foreign server reaches a log, an
// error or a person. Begin with Each, which asks the wallets of a receiver in turn. What differs between kinds of
// wallets is in lnbits.go, lnd.go, nwc.go and address.go.
package wallet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/seal"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Kind names a kind of wallet. The names are part of the public contract.
type Kind string

// The kinds there are.
const (
	KindLightningAddress Kind = "LIGHTNING_ADDRESS" // a lightning address or an LNURL (LUD-01, 06, 16)
	KindLNDREST          Kind = "LND_REST"
	KindLNDGRPC          Kind = "LND_GRPC"
	KindLNbits           Kind = "LNBITS"
	KindNWC              Kind = "NWC" // Nostr Wallet Connect (NIP-47)
)

// Kinds are all of them.
var Kinds = []Kind{KindLightningAddress, KindLNDREST, KindLNDGRPC, KindLNbits, KindNWC}

// Wallet is a wallet as its owner sees it, without the secret that opens it.
type Wallet struct {
	ID        int64
	Kind      Kind
	Label     string // the owner's name for it
	Priority  int    // the lowest is asked first
	Enabled   bool
	CreatedAt time.Time
	ChangedAt time.Time
}

// Request asks a wallet for an invoice.
type Request struct {
	Amount paidaction.Msat
	Memo   string
	Expiry time.Duration // whole seconds

	least bool // for a test: ask for more if the wallet takes no less
	// leaves is for a withdrawal, whose payer cannot be asked again: refused are a comment that would be cut, and an
	// answer by which the payee gives the payer something that is not passed on.
	leaves bool
}

// Limits limit what is done for one user. The zero value of each stands for its default.
type Limits struct {
	Call     time.Duration // for one wallet's answer; default 20 seconds
	Search   time.Duration // for all wallets' answers for one payment together, unless the caller gives them less; default 25 seconds
	Wallets  int           // per user; default 10
	Failures int           // per genesis, after which a wallet is left out; default 2
	Pending  int64         // of a wallet's invoices that wait unpaid inside ours, when it is left out; default 25
	Log      int           // entries kept per wallet, and a few more; default 1,000
}

// Config is what Wallets are made of. Pool, Outside, Decode and Secret are required.
type Config struct {
	Pool    *pgxpool.Pool
	Outside *outside.Client
	Secret  []byte // at least 32 bytes; the key of the settings is derived from it
	// Decode lets a node of ours read a bolt11: nothing else decides what it says. A refusal is passed on; any other
	// error means that the node cannot read it.
	Decode func(ctx context.Context, bolt11 string) (paidaction.Bolt11, error)
	// AddInvoice lets an LND issue an invoice by gRPC, only over connections that dial opens. Its errors are
	// ErrKeyRefused or ErrUnreachable, or mean that the node declined. nil: wallets of that kind cannot be saved.
	AddInvoice func(ctx context.Context, at LNDGRPC, r Request, dial Dial) (bolt11 string, err error)
	Limits     Limits
	Now        func() time.Time // default time.Now
	Log        *slog.Logger     // default slog.Default()
}

// Dial opens a connection to host:port.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Wallets are the wallets of all users. They are safe for concurrent use, in any number of processes.
type Wallets struct {
	Config
	sealer  *seal.Box
	testing sync.Map // users whose wallet is being tested
}

// New makes the service. It contacts nobody yet.
func New(c Config) (*Wallets, error) {
	if c.Pool == nil || c.Outside == nil || c.Decode == nil {
		return nil, errors.New("wallet: a database pool, a client for the outside and a decoder are needed")
	}
	l := &c.Limits
	l.Call, l.Search = cmp.Or(l.Call, 20*time.Second), cmp.Or(l.Search, 25*time.Second)
	l.Wallets, l.Failures, l.Pending, l.Log = cmp.Or(l.Wallets, 10), cmp.Or(l.Failures, 2), cmp.Or(l.Pending, 25), cmp.Or(l.Log, 1000)
	if min(l.Call, l.Search) < 0 || min(l.Wallets, l.Failures, l.Log) < 0 || l.Pending < 0 {
		return nil, errors.New("wallet: a limit must be above zero")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	s, err := seal.New(c.Secret, sealLabel)
	if err != nil {
		return nil, err
	}
	return &Wallets{Config: c, sealer: s}, nil
}
