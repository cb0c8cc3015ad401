package worker

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// An alert looks for what grows: a series that begins with the first conflict has never grown, so each is there from the beginning.
func TestConflictsAreCountedFromZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "holdfast_database_conflicts_total" && m.GetCounter().GetValue() == 0 {
				there[m.GetLabel()[0].GetValue()] = true
			}
		}
	}
	if !there["40P01"] || !there["40001"] {
		t.Errorf("there are %v", there)
	}
}
