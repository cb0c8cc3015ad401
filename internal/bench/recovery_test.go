package bench

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/fakenode"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A starting service subscribes to each open invoice, and receives their payments.
func TestRecoveryIsMeasured(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Holdfast, o.FakeNode, o.Rounds, o.Noisy = program(t), command(t, "fake-node"), 1, true
	var err error
	if o.Programs, err = devnet.Programs(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	recovery, err := Recover(t.Context(), o, Restarts{Actions: 300, Open: []int{30, 100}, Most: 150, LND: 60})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []string
	for _, row := range recovery.Rows {
		sizes = append(sizes, fmt.Sprint(row.Node, row.Open))
		if len(row.Seconds) != 1 || slices.Min(row.Seconds) <= 0 || row.MB < 5 || row.Pages <= 0 || row.Pages > 20 {
			t.Errorf("%+v", row)
		}
	}
	if !slices.Equal(sizes, strings.Fields("fake30 fake100 fake150 fake30 fake100 LND60")) || strings.Count(recovery.markdown(time.Now()), "\n| ") != 7 ||
		!strings.Contains(recovery.Table(), "150") {
		t.Errorf("%+v", recovery)
	}
}

func TestRecoveryHasBounds(t *testing.T) {
	t.Parallel()
	fine := Recovery{Rows: []Recovered{{Open: 10_000, Seconds: figure{1, 4, 9}, Pages: 4}, {Open: 100_000, Seconds: figure{40}, Pages: 4}, {Actions: 9, Open: 10_000, Pages: 4.4}}}
	// A different plan at another node is not caused by the history.
	fine.Rows = append(fine.Rows, Recovered{Node: lndNode, Open: 10_000, Seconds: figure{5}, Pages: 9})
	if err := fine.judge(false); err != nil {
		t.Error(err)
	}
	fine.Rows[0].Seconds, fine.Rows[2].Pages, fine.Noise = figure{6}, 5, noise{pace{2, 1}, 1}
	err := fine.judge(false)
	for _, want := range []error{ErrSlow, ErrGrows, ErrNoisy} {
		if !errors.Is(err, want) {
			t.Errorf("%v lacks %v", err, want)
		}
	}
	slow := Recovery{Rows: []Recovered{{Node: lndNode, Open: 10_000, Seconds: figure{6}, Pages: 4}}}
	if err := slow.judge(false); !errors.Is(err, ErrSlow) {
		t.Errorf("at a real node: %v", err)
	}
}

var ofOne = regexp.MustCompile(`("due": )"[^"]*"|("action": )\d+`)

// jobsOfAny removes from rows which action a job is for, and when it is due.
func jobsOfAny(rows map[string]int) map[string]int {
	all := map[string]int{}
	for row, n := range rows {
		all[ofOne.ReplaceAllString(row, "$1$2")] += n
	}
	return all
}

// The script that opens invoices leaves the same rows, in the same tables, as the service.
func TestTheScriptOpensInvoicesAsTheServiceDoes(t *testing.T) {
	t.Parallel()
	dir, self := scratch(t), command(t, "fake-node")
	node, err := fakenode.Start(exec.CommandContext(t.Context(), self[0], self[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Stop(); err != nil {
			t.Error(err)
		}
	}()
	d := databases(t, dir, small(t))
	settings, err := nodeSettings(dir, node.Node)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newService(dir, program(t), d.DSN(holdfastDB), append(settings, "HOLDFAST_ROLES=api")...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	connection := connect(t, d, holdfastDB)
	before := contents(t, connection)
	a := newAPI(s.address, 1)
	defer a.close()
	if _, err := openZap(t.Context(), a, d.keys[2], 1, "PESSIMISTIC"); err != nil {
		t.Fatal(err)
	}
	between := contents(t, connection)
	want := jobsOfAny(written(before, between))
	r := recovering{Options: small(t), database: d, node: fakeIssuer{node}}
	if err := r.fill(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := jobsOfAny(written(between, contents(t, connection))); !maps.Equal(got, want) || len(r.open) != 1 || r.open[0].hash == (paidaction.Hash{}) {
		for _, row := range slices.Sorted(maps.Keys(want)) {
			t.Errorf("the service: %+d %s", want[row], row)
		}
		for _, row := range slices.Sorted(maps.Keys(got)) {
			t.Errorf("the script: %+d %s", got[row], row)
		}
	}
}
