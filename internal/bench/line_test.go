package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// The last line has every name of spec 00 §0.2, each with the figure that it names.
func TestTheLastLineKeepsItsNames(t *testing.T) {
	t.Parallel()
	o := Options{}.defaults()
	r := run{Options: o, measured: measured{outcomes: map[what][]outcome{
		{holdfast, uniform, 32}:  {{TPS: 80, ServiceUs: 10, PostgresUs: 20, P99: 7}},
		{reference, uniform, 32}: {{TPS: 100, PostgresUs: 20}},
		{holdfast, hot, 32}:      {{TPS: 40}},
		{reference, hot, 32}:     {{TPS: 160, PostgresUs: 20}},
	}}}
	lightning := newFlowReport(o)
	for i, second := range []float64{900, 400, 200} {
		lightning.Flows[i].add(flowOutcome{PerSecond: second}, flowOutcome{})
	}
	// The flow that is slowest at the median need not be the slowest at the 99th percentile.
	lightning.Flows[0].P50, lightning.Flows[1].P50, lightning.Flows[2].P50 = figure{2}, figure{1, 6, 9}, figure{3}
	lightning.Flows[0].P99, lightning.Flows[1].P99, lightning.Flows[2].P99 = figure{30}, figure{20}, figure{10}

	read := asRead(t, Line{CreditZap: r.report(conditions{}), Lightning: lightning, Growth: &Growth{}, Lock: map[string]json.RawMessage{"rounds": []byte("{}")}})
	for path, want := range map[string]float64{
		"credit_zap uniform c32 tps": 80, "credit_zap uniform c32 ratio": 0.8, "credit_zap uniform c32 cpu_us": 30,
		"credit_zap uniform c32 cpu_ratio": 1.5, "credit_zap uniform c32 p99_ms": 7,
		"credit_zap hot c32 tps": 40, "credit_zap hot c32 ratio": 0.25, "credit_zap hot c32 of_uniform": 0.5,
		"lightning optimistic_per_s": 900, "lightning pessimistic_per_s": 400, "lightning wrapped_per_s": 200,
		"lightning p50_ms": 6, "lightning p99_ms": 30,
	} {
		if got, is := at(read, path).(float64); !is || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", path, at(read, path), want)
		}
	}
	for _, path := range []string{"growth", "lock", "lightning optimistic", "lightning pessimistic", "lightning wrapped"} {
		if _, is := at(read, path).(map[string]any); !is {
			t.Errorf("%s is no object: %v", path, at(read, path))
		}
	}
	if read := asRead(t, Line{}); len(read) != 0 {
		t.Errorf("nothing was measured, and the line says %v", read)
	}
}

// asRead is the line as a script reads it.
func asRead(t *testing.T, line Line) map[string]any {
	t.Helper()
	text, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// at is the value at the end of a path of names; nil if one is missing.
func at(read any, path string) any {
	for _, name := range strings.Fields(path) {
		object, _ := read.(map[string]any)
		read = object[name]
	}
	return read
}
