package wallet

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a person says of their wallet is refused with a sentence that repeats nothing of it, or is kept as it can be used: over https
// alone, and the same when it is read again.
func FuzzSettings(f *testing.F) {
	for kind, parts := range [][3]string{
		{"alice@example.com"}, {"https://node.example:8080", "0201036c6e64"}, {"node.example:10009", "0201036c6e64"},
		{"https://bits.example", "0123456789abcdef"}, {"nostr+walletconnect://b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4?relay=wss%3A%2F%2Frelay.example&secret=71a8c14c1407c113601079c4302dab36460f0ccd0ad506f1f2dc73b5100e4f3c"},
	} {
		f.Add(uint8(kind), parts[0], parts[1], parts[2])
		f.Add(uint8(kind), " http://127.0.0.1/ ", "", "-----BEGIN CERTIFICATE-----")
	}
	w := &Wallets{Config: Config{Outside: outside.New(outside.Config{}), AddInvoice: func(context.Context, LNDGRPC, Request, Dial) (string, error) { return "", nil }}}
	f.Fuzz(func(t *testing.T, kind uint8, first, second, third string) {
		given := []Settings{LightningAddress{Secret(first)}, LNDREST{first, Secret(second), third}, LNDGRPC{first, Secret(second), third},
			LNbits{first, Secret(second)}, NWC{Secret(first)}}[kind%5]
		kept, err := given.tidied(w)
		if err != nil {
			refusal, ok := paidaction.AsRefusal(err)
			if !ok || refusal.Code != paidaction.CodeInvalidInput {
				t.Fatalf("%v", err)
			}
			for _, said := range []string{first, second, third} {
				if len(said) > 12 && strings.Contains(refusal.Message, said) {
					t.Errorf("%q repeats %q", refusal.Message, said)
				}
			}
			return
		}
		if url, ok := map[Kind]string{KindLNDREST: first, KindLNbits: first}[kept.Kind()]; ok && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(url)), "https://") {
			t.Errorf("%q is called", url)
		}
		if again, err := kept.tidied(w); err != nil || !reflect.DeepEqual(again, kept) {
			t.Errorf("%#v becomes %#v when it is read again: %v", kept, again, err)
		}
	})
}
