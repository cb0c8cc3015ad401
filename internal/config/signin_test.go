package config

import (
	"strings"
	"testing"
)

// An incomplete set of a site's settings is refused, and so are keys that somebody could replace on the way.
func TestSigningIn(t *testing.T) {
	t.Parallel()
	const issuer, audience, https = "HOLDFAST_JWT_ISSUER=https://site.example", "HOLDFAST_JWT_AUDIENCE=holdfast", "HOLDFAST_JWKS_URL=https://site.example/jwks"
	for text, good := range map[string]bool{
		"": true, issuer + " " + audience + " " + https: true, issuer + " " + audience + " HOLDFAST_JWKS_FILE=/etc/jwks.json": true,
		issuer + " " + audience + " HOLDFAST_JWKS_URL=http://127.0.0.1:8081/jwks": true, "HOLDFAST_WALLET_SIGN_UP=false HOLDFAST_SIGNED_IN_FOR=1h": true,
		issuer: false, issuer + " " + audience: false, issuer + " " + https: false, https: false, issuer + " " + audience + " " + https + " HOLDFAST_JWKS_FILE=x": false,
		issuer + " " + audience + " HOLDFAST_JWKS_URL=http://site.example/jwks": false, issuer + " " + audience + " HOLDFAST_JWKS_URL=jwks": false,
		"HOLDFAST_SIGNED_IN_FOR=1s": false,
	} {
		c, err := parse(t, append(strings.Fields(text), "HOLDFAST_SECRET="+secret), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
		if c.SignIn.WalletSignUp != !strings.Contains(text, "SIGN_UP=false") {
			t.Errorf("%s: wallets sign up: %t", text, c.SignIn.WalletSignUp)
		}
	}
}
