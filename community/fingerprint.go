package community

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// claimFingerprint refuses the same content by the same author within the window.
func (ic ItemCreate) claimFingerprint(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs, id int64) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", orNobody(tx.Payer), a.content()))
	n, err := tx.DB.ClaimFingerprint(ctx, db.ClaimFingerprintParams{Fingerprint: sum[:], ItemID: id,
		Until: tx.Now.Add(ic.Settings.DuplicateWindow), At: tx.Now})
	if err != nil {
		return fmt.Errorf("claim the fingerprint: %w", err)
	}
	if n == 0 {
		return paidaction.Errorf(paidaction.CodeDuplicate, "The same thing was posted a moment ago.")
	}
	return nil
}

// SweepFingerprints deletes fingerprints whose window is over, a page at a time.
func SweepFingerprints(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 1000
	n, err := q.DeleteFingerprints(ctx, db.DeleteFingerprintsParams{Before: now.Add(-time.Hour), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old fingerprints: %w", err)
	}
	return n == page, nil
}
