package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

var errOtherSecret = errors.New("HOLDFAST_SECRET is not the one that this database was begun with: with this one, what is stored under it could not be read, and nobody who paid without signing in could be recognised. " +
	"Give the one of before. If it is lost for good, docs/production.md says what is lost with it, and how to go on")

// sameSecret refuses a secret that differs from that of earlier processes. The first process stores a fingerprint of
// it. Whatever stores something under the secret asks here first: the service could not read what is under another.
func sameSecret(ctx context.Context, q *db.Queries, secret []byte) error {
	print := hmac.New(sha256.New, secret)
	print.Write([]byte("holdfast: which secret this is"))
	if err := q.KeepSecretPrint(ctx, print.Sum(nil)); err != nil {
		return fmt.Errorf("keep which secret it is: %w", err)
	}
	kept, err := q.SecretPrint(ctx)
	if err != nil {
		return fmt.Errorf("read which secret it is: %w", err)
	}
	if !hmac.Equal(kept, print.Sum(nil)) {
		return fmt.Errorf("%w: %w", errSettings, errOtherSecret)
	}
	return nil
}
