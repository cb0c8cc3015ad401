package community

import (
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// States of rows that belong to a paid action. PENDING rows are visible only to the payer.
const (
	statePaid   = "PAID"
	stateFailed = "FAILED"
)

// repointed makes of what a Repoint query returned an error, unless it gave the row of the earlier attempt to this one.
func repointed(tx *paidaction.Tx, row string, n int64, err error) error {
	if err != nil {
		return fmt.Errorf("re-point the %s: %w", row, err)
	}
	if n == 0 {
		return fmt.Errorf("no %s belongs to action %d", row, tx.Previous)
	}
	return nil
}
