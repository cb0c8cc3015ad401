package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
)

// A run of one second each, from the databases to the last line: every contender does something, and every ledger is
// compared with the clients.
func TestARunFromEndToEnd(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Holdfast, o.Load, o.Bare = program(t), command(t, "load"), command(t, "bare")
	o.Rounds, o.Warm, o.Takes, o.Clients, o.Noisy = 1, time.Second, time.Second, []int{2, 8}, true
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	type figures struct {
		TPS, Ratio float64
		CPUus      float64 `json:"cpu_us"`
		CPURatio   float64 `json:"cpu_ratio"`
		P99ms      float64 `json:"p99_ms"`
		OfUniform  float64 `json:"of_uniform"`
		OfHandler  float64 `json:"of_handler"`
		PerS       float64 `json:"per_s"`
	}
	var read struct{ Uniform, Hot map[string]figures }
	if err := json.Unmarshal(line, &read); err != nil {
		t.Fatal(err)
	}
	for name, half := range map[string]map[string]figures{"uniform": read.Uniform, "hot": read.Hot} {
		c := half["c2"]
		if c.TPS <= 0 || c.Ratio <= 0 || c.CPUus <= 0 || c.CPURatio <= 0 || c.P99ms <= 0 || half["half_rate"].PerS <= 0 || (name == "hot") != (c.OfUniform > 0) {
			t.Errorf("%s is not measured: %s", name, line)
		}
		if c.OfHandler != 0 || half["c8"].OfHandler <= 0 {
			t.Errorf("%s: the bare handler is not measured with 8 clients: %s", name, line)
		}
	}
	if !strings.Contains(report.Table(), "own uniform") {
		t.Error("the table has no head")
	}
}

// The ledger check finds a zap that clients were told of but does not exist, one that they were not told of, and one
// that was paid with a different amount.
func TestTheCheckFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	d := databases(t, dir, small(t))
	s, err := newService(dir, program(t), d.DSN(holdfastDB))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	b, err := openBooks(t.Context(), d.DSN(holdfastDB))
	if err != nil {
		t.Fatal(err)
	}
	defer b.close(t.Context())
	r, err := load.Run(t.Context(), load.Plan{Addresses: []string{s.address}, Keys: d.keys, Items: int64(d.items), Sats: sats, Prefix: "some",
		Clients: 2, Measure: 300 * time.Millisecond})
	if err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	if err := b.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.check(t.Context(), r, sats); err != nil {
		t.Fatal(err)
	}
	if err := s.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, other := range []int64{r.Paid - 1, r.Paid + 1} {
		wrong := r
		wrong.Paid = other
		if b.check(t.Context(), wrong, sats) == nil {
			t.Errorf("%d zaps are paid, and the check believes that there are %d", r.Paid, other)
		}
	}
	if b.check(t.Context(), r, sats+1) == nil {
		t.Error("the check does not look at what they cost")
	}
	// Somebody's money is missing: the sum of balances shows it, and so does reconcile.
	if _, err := connect(t, d, holdfastDB).Exec(t.Context(), "UPDATE account SET balance = balance - 1 WHERE id = 17"); err != nil {
		t.Fatal(err)
	}
	if b.check(t.Context(), r, sats) == nil || s.reconcile(t.Context()) == nil {
		t.Error("a msat is missing, and nobody finds it")
	}
	if _, err := connect(t, d, holdfastDB).Exec(t.Context(), "DELETE FROM notification WHERE id = (SELECT max(id) FROM notification)"); err != nil {
		t.Fatal(err)
	}
	if err := b.check(t.Context(), r, sats); err == nil || !strings.Contains(err.Error(), "told of") {
		t.Errorf("an author was not told, and the check does not see it: %v", err)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	ours, theirs := figure{10, 30, 20}, figure{20, 30, 80}
	if ours.median() != 20 || ours.spread() != [2]float64{10, 30} {
		t.Errorf("%v: median %v, spread %v", ours, ours.median(), ours.spread())
	}
	if ratio := ours.over(theirs); ratio.median() != 0.5 || ratio.spread() != [2]float64{0.25, 1} {
		t.Errorf("the ratios of %v and %v are %v", ours, theirs, ratio)
	}
	if even := (figure{4, 1, 3, 2}); even.median() != 2 || (figure)(nil).median() != 0 {
		t.Errorf("the median of %v is %v", even, even.median())
	}
}

func TestNoiseIsTheSlowestOverTheFastest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rounds [][]pace
		rates  []figure
		noise  noise
		quiet  bool
	}{
		{nil, nil, noise{pace{1, 1}, 1}, true},
		{[][]pace{{{25, 5}, {20, 5}, {24, 10}}}, []figure{{100, 120}, {40, 20, 30}}, noise{pace{1.25, 2}, 2}, true},
		{[][]pace{{{25, 5}, {20, 5}, {30, 5}}}, nil, noise{pace{1.5, 1}, 1}, false},
		{[][]pace{{{20, 10}, {20, 4}, {20, 8}}}, nil, noise{pace{1, 2.5}, 1}, false},
		// Each of two rounds is compared with itself, and the worse of each counts.
		{[][]pace{{{20, 5}, {22, 5}}, nil, {{40, 5}, {40, 10}}}, nil, noise{pace{1.1, 2}, 1}, true},
		{[][]pace{{{20, 5}, {20, 5}}, {{40, 5}, {60, 5}}}, nil, noise{pace{1.5, 1}, 1}, false},
		{nil, []figure{{100, 120}, {1500, 600, 900}}, noise{pace{1, 1}, 2.5}, false},
	} {
		if n := noiseOf(c.rounds, c.rates); n != c.noise || n.within(quiet) != c.quiet {
			t.Errorf("%v, %v: noise %v", c.rounds, c.rates, n)
		}
	}
	if p, err := calibrate(); err != nil || p.Calculation <= 0 || p.Changes <= 0 {
		t.Errorf("the calibration took %+v ms: %v", p, err)
	}
}

// Processor time includes all descendants of the process, even those that have ended.
func TestUsageIsReadFromTheKernelsText(t *testing.T) {
	t.Parallel()
	u, err := readUsage([]byte("42 (a) (b) S 7 42 42 0 -1 4194560 1 2 3 4 100 50 25 5 20 0 1 0 99"))
	if err != nil || u != (usage{7, 1500 * time.Millisecond, 300 * time.Millisecond}) {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := readUsage([]byte("42 (a) S 7")); err == nil {
		t.Error("half a text is read")
	}
	all := map[int]usage{1: {}, 7: {parent: 1}, 42: {parent: 7}, 8: {parent: 1}, 60: {parent: 61}, 61: {parent: 60}}
	for pid, want := range map[int]bool{7: true, 42: true, 8: false, 1: false, 60: false} {
		if descends(all, pid, []int{7}) != want {
			t.Errorf("process %d descends from 7: %v", pid, !want)
		}
	}
}

// What pgbench does while it connects and warms up is not counted, nor is what it does after its time. A line that is
// read too late begins and ends nothing, since processor time is that of the moment.
func TestPgbenchIsMeasuredOnceItIsWarm(t *testing.T) {
	t.Parallel()
	said := "pgbench (15.18)\n"
	for i, tps := range []int{0, 100, 700, 800, 1000, 1100, 5000} {
		said += fmt.Sprintf("progress: 1764377%03d.000 s, %d.0 tps, lat 1.234 ms stddev 0.5, 0 failed\n", i, tps)
	}
	asked := 0
	cpu := func() (time.Duration, error) {
		asked++
		return time.Duration(asked*asked) * time.Second, nil
	}
	early := func() time.Time { return time.Unix(1764377000, 0) }
	done, tps, used, err := readProgress(strings.NewReader(said), pgbenchWarm, 2*time.Second, early, cpu)
	if err != nil || done != 2100 || tps != 1050 || used != 3*time.Second || asked != 2 {
		t.Errorf("%d, %v, %v, %v, %d times asked", done, tps, used, err, asked)
	}
	for late, want := range map[int]int64{3: 6100, 5: 7100} { // counted from 0: line 3 would begin, and line 5 end
		line := -1
		clock := func() time.Time {
			if line++; line == late {
				return time.Unix(1764377000+int64(line), 150e6)
			}
			return early()
		}
		if done, _, _, err := readProgress(strings.NewReader(said), pgbenchWarm, 2*time.Second, clock, cpu); err != nil || done != want {
			t.Errorf("with line %d read late: %d, %v", late, done, err)
		}
	}
	failed := strings.Replace(said, ", 0 failed", ", 3 failed", 1)
	for _, bad := range []string{"", said[:len(said)/2], failed} {
		if _, _, _, err := readProgress(strings.NewReader(bad), pgbenchWarm, 2*time.Second, early, cpu); err == nil {
			t.Errorf("%q is a result", bad)
		}
	}
}

func TestFiguresGoBetweenTheMarkers(t *testing.T) {
	t.Parallel()
	for _, m := range []marks{creditMarks, scaleMarks, recoveryMarks, lightningMarks} {
		page := "before\n" + m.begin + "\nold\n" + m.end + "\nafter\n"
		got, err := m.between(page, "new\n")
		if want := "before\n" + m.begin + "\n\nnew\n\n" + m.end + "\nafter\n"; err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := m.between("no place", "new"); !errors.Is(err, errMarks) {
			t.Errorf("a page without markers: %v", err)
		}
	}
}
