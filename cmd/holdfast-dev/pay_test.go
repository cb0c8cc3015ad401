package main

import (
	"strings"
	"testing"
)

// What is no invoice is refused in words, before any node is asked.
func TestWhatIsNoInvoiceIsNotPaid(t *testing.T) {
	t.Parallel()
	for _, given := range []string{"", " ", "alice@example.com"} {
		err := (&payCommand{Dir: t.TempDir(), From: "payer", Invoice: given}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "is no invoice") {
			t.Errorf("%q: %v", given, err)
		}
	}
}
