// Package keyauthtest is a wallet that signs in (LUD-04), for tests.
package keyauthtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcutil/bech32"
)

// Wallet is a seed. It shows each domain a different key.
type Wallet string

func (w Wallet) key(domain string) *btcec.PrivateKey {
	mac := hmac.New(sha256.New, []byte(w))
	mac.Write([]byte(domain))
	key, _ := btcec.PrivKeyFromBytes(mac.Sum(nil))
	return key
}

// Read is the URL that an LNURL stands for.
func Read(lnurl string) (*url.URL, error) {
	prefix, data, err := bech32.DecodeNoLimit(strings.ToLower(lnurl))
	if err != nil || prefix != "lnurl" {
		return nil, fmt.Errorf("not an LNURL: %q, %w", prefix, err)
	}
	raw, err := bech32.ConvertBits(data, 5, 8, false)
	if err != nil {
		return nil, err
	}
	return url.Parse(string(raw))
}

// Answer is the URL that the wallet calls once its owner has agreed to sign in.
func (w Wallet) Answer(lnurl string) (*url.URL, error) {
	u, err := Read(lnurl)
	if err != nil {
		return nil, err
	}
	return u, w.Sign(u, u.Hostname())
}

// Sign adds to a URL the signature that the wallet makes for a domain.
func (w Wallet) Sign(u *url.URL, domain string) error {
	query := u.Query()
	k1, err := hex.DecodeString(query.Get("k1"))
	if err != nil || len(k1) != 32 || query.Get("tag") != "login" {
		return errors.New("nothing to sign in by")
	}
	key := w.key(domain)
	query.Set("sig", hex.EncodeToString(ecdsa.Sign(key, k1).Serialize()))
	query.Set("key", hex.EncodeToString(key.PubKey().SerializeCompressed()))
	u.RawQuery = query.Encode()
	return nil
}
