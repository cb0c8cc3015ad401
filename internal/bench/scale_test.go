package bench

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Two processes on one database share the zaps, and those requested from both at once are paid once: otherwise the
// check of each measurement would end the run.
func TestTwoProcessesShareTheZaps(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Holdfast, o.Load, o.Rounds, o.Takes, o.Processes, o.Noisy = program(t), command(t, "load"), 1, 1500*time.Millisecond, []int{1, 2}, true
	scaled, err := Scale(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(scaled)
	if err != nil {
		t.Fatal(err)
	}
	type figures struct {
		TPS, Twice float64
		OfOne      float64 `json:"of_one"`
		Least      float64 `json:"least_tps"`
		Most       float64 `json:"most_tps"`
		ServiceUs  float64 `json:"service_us"`
		PostgresUs float64 `json:"postgres_us"`
		P99ms      float64 `json:"p99_ms"`
	}
	var read struct{ Uniform, Hot map[string]figures }
	if err := json.Unmarshal(line, &read); err != nil {
		t.Fatal(err)
	}
	for name, half := range map[string]map[string]figures{"uniform": read.Uniform, "hot": read.Hot} {
		one, two := half["p1_c32"], half["p2_c32"]
		if one.OfOne != 1 || one.Least != one.TPS || one.Most != one.TPS {
			t.Errorf("%s, one process is all there is: %+v", name, one)
		}
		if two.OfOne <= 0 || two.Least <= 0 || two.Least+two.Most < two.TPS-1 || two.Least+two.Most > two.TPS+1 {
			t.Errorf("%s, two processes share what comes: %+v", name, two)
		}
		if len(half) != 3 {
			t.Errorf("%s: %s", name, line)
		}
		for _, f := range half {
			if f.Twice == 0 || f.ServiceUs <= 0 || f.PostgresUs <= 0 || f.P99ms <= 0 {
				t.Errorf("%s is not measured: %s", name, line)
			}
		}
	}
	if page, err := scaleMarks.between("a\n"+scaleMarks.begin+"\n"+scaleMarks.end+"\n", scaled.markdown(time.Now())); err != nil || strings.Count(page, "\n| ") != 7 {
		t.Errorf("%v\n%s", err, page)
	}
}
