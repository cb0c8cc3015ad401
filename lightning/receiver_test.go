package lightning_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

func TestIssueInvoice(t *testing.T) {
	t.Parallel()
	server := lndtest.New(t, simnode.New("stranger", time.Now))
	cfg := server.Config()
	stranger := lightning.Receiver{Address: cfg.Address, MacaroonHex: cfg.MacaroonHex, TLSCertPEM: cfg.TLSCertPEM, Dialer: cfg.Dialer}

	bolt11, err := lightning.IssueInvoice(t.Context(), stranger, 1234, "memo", 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	read, err := server.Client().DecodeInvoice(t.Context(), bolt11)
	if err != nil || read.Amount != 1234 || read.Description != "memo" || read.Expires.Sub(read.Created) != 10*time.Minute {
		t.Errorf("issued %+v, error %v", read, err)
	}

	with := func(change func(*lightning.Receiver)) lightning.Receiver {
		r := stranger
		change(&r)
		return r
	}
	broken := errors.New("secret of the dialer")
	for what, c := range map[string]struct {
		at   lightning.Receiver
		want error
	}{
		"another macaroon":    {with(func(r *lightning.Receiver) { r.MacaroonHex = "00" + r.MacaroonHex[2:] }), nil},
		"no macaroon":         {with(func(r *lightning.Receiver) { r.MacaroonHex = "xyz" }), lightning.ErrNotPermitted},
		"another signature":   {with(func(r *lightning.Receiver) { r.MacaroonHex = flipped(r.MacaroonHex) }), lightning.ErrNotPermitted},
		"another certificate": {with(func(r *lightning.Receiver) { r.TLSCertPEM = nil }), lightning.ErrUnreachable},
		"another host":        {with(func(r *lightning.Receiver) { r.Address = "elsewhere:10009" }), lightning.ErrUnreachable},
		"a dialer that fails": {with(func(r *lightning.Receiver) {
			r.Dialer = func(context.Context, string) (net.Conn, error) { return nil, broken }
		}), lightning.ErrUnreachable},
	} {
		_, err := lightning.IssueInvoice(t.Context(), c.at, 1000, "", time.Minute)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "elsewhere")) {
			t.Errorf("%s: the error says too much: %v", what, err)
		}
	}
	server.Deny("/lnrpc.Lightning/AddInvoice")
	if _, err := lightning.IssueInvoice(t.Context(), stranger, 1000, "", time.Minute); !errors.Is(err, lightning.ErrNotPermitted) {
		t.Errorf("without permission: %v", err)
	}
	server.Stop()
	if _, err := lightning.IssueInvoice(t.Context(), stranger, 1000, "", time.Minute); !errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("a node that is down: %v", err)
	}
}

// flipped is a macaroon whose signature is wrong.
func flipped(macaroon string) string {
	last := "0"
	if strings.HasSuffix(macaroon, "0") {
		last = "1"
	}
	return macaroon[:len(macaroon)-1] + last
}
