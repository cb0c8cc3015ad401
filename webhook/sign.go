package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// newSecret makes a secret to sign a webhook's messages with.
func (w *Webhooks) newSecret(webhook int64) (secret string, sealed []byte) {
	raw := make([]byte, secretBytes)
	rand.Read(raw)
	return secretPrefix + base64.StdEncoding.EncodeToString(raw), w.box.Seal(place(webhook), raw)
}

// place binds a sealed secret to its webhook.
func place(webhook int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(webhook)) }

// stillSigning returns the earlier secrets that still sign, the newest first, and until when each does.
func stillSigning(of db.Webhook, now time.Time) (sealed [][]byte, until []time.Time) {
	sealed, until = [][]byte{}, []time.Time{}
	add := func(secret []byte, end time.Time) {
		if now.Before(end) {
			sealed, until = append(sealed, secret), append(until, end)
		}
	}
	if of.PreviousUntil != nil {
		add(of.Previous, *of.PreviousUntil)
	}
	for i, secret := range of.Former {
		add(secret, of.FormerUntil[i])
	}
	return sealed, until
}

// headers are the headers of one attempt. They are signed with the present secret and, for a while after a rotation,
// with the earlier ones, too, but for those that were lost with the service's own secret.
func (w *Webhooks) headers(of db.Webhook, message int64, now time.Time, text []byte) (http.Header, error) {
	id, at := "msg_"+strconv.FormatInt(message, 10), strconv.FormatInt(now.Unix(), 10)
	before, _ := stillSigning(of, now)
	var signatures []string
	for i, s := range append([][]byte{of.Secret}, before...) {
		raw, err := w.box.Open(place(of.ID), s)
		if err != nil && i > 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		mac := hmac.New(sha256.New, raw)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(text)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
	return h, nil
}
