package relay_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// The alarm is an increase, and Prometheus sees none in a number that is first shown with the first loss.
func TestANodeThatHasLostNothingIsShownWithZero(t *testing.T) {
	c := setup(t).Relay.Config
	registry := prometheus.NewRegistry()
	c.Metrics = relay.NewMetrics(registry)
	if _, err := relay.New(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "holdfast_relay_lost_by_node_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("%v", m)
			}
			shown[m.GetLabel()[0].GetValue()] = true
		}
	}
	for _, name := range c.Nodes.Names() {
		if !shown[name] {
			t.Errorf("node %s is not shown", name)
		}
	}
}
