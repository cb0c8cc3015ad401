package simulate

import (
	"testing"
)

func TestTry(t *testing.T) {
	lab, err := OpenLab(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	d, err := lab.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(t.Context())
	for seed := range uint64(12) {
		r := try(t.Context(), d, seed, less{})
		
		t.Logf("%d actions, %d faults, %v", r.Actions, r.Faults, r.Violations)
		if err := d.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
