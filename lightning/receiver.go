package lightning

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Receiver is a stranger's LND, which issues invoices for them.
type Receiver struct {
	Address     string // host:port of its gRPC
	MacaroonHex string // LND's invoice.macaroon suffices. A secret: never logged
	TLSCertPEM  []byte // empty: a publicly trusted certificate
	// Dialer opens every connection. It guards which addresses may be reached, and limits how much is read.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
}

// The most that a stranger's node may send, in bytes.
const (
	maxStrangerMessage = 64 << 10
	maxStrangerHeaders = 16 << 10
)

// errDeclined is all that we tell of a stranger's refusal, since its text is foreign.
var errDeclined = errors.New("the node declines")

// IssueInvoice connects to a stranger's LND, adds an invoice and hangs up. The invoice includes routes through private
// channels: a node with no others could not be paid otherwise. The expiry is in whole seconds.
//
// Errors: ErrNotPermitted, ErrUnreachable, and one that says only that the node declined.
func IssueInvoice(ctx context.Context, r Receiver, amount paidaction.Msat, memo string, expiry time.Duration) (bolt11 string, err error) {
	conn, err := r.connect()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	added, err := lnrpc.NewLightningClient(conn).AddInvoice(ctx, &lnrpc.Invoice{
		ValueMsat: int64(amount), Memo: memo, Expiry: int64(expiry.Seconds()), Private: true,
	})
	if err != nil {
		if meaning := meaningOf(err); errors.Is(meaning, ErrNotPermitted) || errors.Is(meaning, ErrUnreachable) {
			return "", meaning
		}
		return "", errDeclined
	}
	return added.PaymentRequest, nil
}

func (r Receiver) connect() (*grpc.ClientConn, error) {
	macaroon, err := hex.DecodeString(r.MacaroonHex)
	if err != nil {
		return nil, ErrNotPermitted
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(r.TLSCertPEM) > 0 {
		secure.RootCAs = x509.NewCertPool()
		secure.RootCAs.AppendCertsFromPEM(r.TLSCertPEM)
	}
	// passthrough lets the dialer look the name up. A proxy from the environment would connect for us, unguarded.
	conn, err := grpc.NewClient("passthrough:///"+r.Address, grpc.WithContextDialer(r.Dialer), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(credentials.NewTLS(secure)), grpc.WithPerRPCCredentials(macaroonCredentials(macaroon)),
		grpc.WithMaxHeaderListSize(maxStrangerHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStrangerMessage)))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrUnreachable, "its address cannot be read")
	}
	return conn, nil
}
