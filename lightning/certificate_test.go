package lightning_test

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
)

// LND makes a new certificate when the old one runs out. Until it is copied, the node is one more that cannot be
// reached, but whoever looks is told why.
func TestARenewedCertificateIsNamed(t *testing.T) {
	t.Parallel()
	_, server, _ := fixture(t)
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	old := server.Config()
	old.TLSCertPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	c, err := lightning.Dial(old)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Info(t.Context()); !errors.Is(err, lightning.ErrUntrusted) || !errors.Is(err, lightning.ErrUnreachable) {
		t.Error(err)
	}
}
