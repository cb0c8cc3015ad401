package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// A short run with a real LND: payments are made and timed, and invoices are made by both.
func TestARealNodeFromEndToEnd(t *testing.T) {
	t.Parallel()
	o := small(t)
	var err error
	if o.Programs, err = devnet.Programs(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	o.Holdfast, o.Rounds, o.Takes, o.Noisy = program(t), 1, 300*time.Millisecond, true
	report, err := realNode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]struct {
		Invoices int
		Node     float64 `json:"node_per_s"`
		PerS     float64 `json:"per_s"`
		Ratio    float64
		Payments int
		Ours     float64 `json:"ours_ms"`
		Whole    float64 `json:"whole_ms"`
		Share    float64
	}
	if err := json.Unmarshal(line, &read); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"invoices_c1", "invoices_c8"} {
		if c := read[name]; c.Invoices == 0 || c.Node <= 0 || c.PerS <= 0 || c.Ratio <= 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for _, name := range []string{"optimistic", "pessimistic"} {
		if s := read[name]; s.Payments != realPayments || s.Ours <= 0 || s.Ours >= s.Whole || s.Share <= 0 || s.Share >= 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
