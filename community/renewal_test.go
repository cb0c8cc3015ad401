package community_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A renewal that could not be tried, or of which nobody knows the outcome, says nothing of the founder's balance: the
// territory stays due and is not put into its grace, and the others are renewed meanwhile.
func TestARenewalThatFailsStaysDueAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{"it fails": "P0001", "it conflicts for ever": "40001"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			founder := w.User("founder", 0, 0)
			renewing(w, founder, "a")
			renewing(w, founder, "b")
			give(w, founder, 2*month, 0)
			mustExec(w, fmt.Sprintf(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END $$`, code))
			mustExec(w, `CREATE TRIGGER fail BEFORE INSERT ON paid_action FOR EACH ROW WHEN (NEW.args->>'name' = 'a') EXECUTE FUNCTION fail()`)
			w.Clock.Advance(31 * oneDay)
			if err := community.BillTerritories(w.Ctx, w.Engine, community.DefaultSettings()); err == nil || !strings.Contains(err.Error(), "renew territory a") {
				t.Errorf("%v", err)
			}
			wantTerritory(w, "a", "ACTIVE", date(2026, 2, 1), month)
			wantTerritory(w, "b", "ACTIVE", date(2026, 3, 1), month)
			if told := newsOf(w, founder); told != "" {
				t.Errorf("the founder was told %q", told)
			}
			mustExec(w, `DROP TRIGGER fail ON paid_action`)
			bill(w)
			wantTerritory(w, "a", "ACTIVE", date(2026, 3, 1), month)
			w.WantBalance(ledger.UserCredits(founder), 0)
			w.WantConserved()
		})
	}
}
