package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// pgbenchThreads is pgbench's number of threads. Spec 00 §0.4 has its references measured on two cores.
const pgbenchThreads = 2

var (
	processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failedTx  = regexp.MustCompile(`number of failed transactions: (\d+)`)
	perSecond = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)
)

// pgbench runs a script with prepared statements for this long, and returns the number of transactions, in all and each
// second.
func (d *database) pgbench(ctx context.Context, name, script string, clients int, takes time.Duration) (done int64, tps float64, err error) {
	return d.work(ctx, name, script, "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(pgbenchThreads, clients)),
		"-T", strconv.Itoa(max(1, int(takes.Round(time.Second)/time.Second))))
}

func (d *database) work(ctx context.Context, name, script string, extent ...string) (done int64, tps float64, err error) {
	args := append([]string{"-M", "prepared", "-n", "-D", "users=" + strconv.Itoa(d.users), "-D", "items=" + strconv.Itoa(d.items),
		"-f", filepath.Join(d.dir, script)}, extent...)
	cmd := exec.CommandContext(ctx, d.Program("pgbench"), args...)
	if cmd.Env, err = d.environment(name); err != nil {
		return 0, 0, err
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		done, tps, err = readPgbench(out)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("pgbench %s: %w\n%s", script, err, out)
	}
	return done, tps, nil
}

// readPgbench reads the end of pgbench's output.
func readPgbench(out []byte) (done int64, tps float64, err error) {
	count, rate := processed.FindSubmatch(out), perSecond.FindSubmatch(out)
	if count == nil || rate == nil {
		return 0, 0, errors.New("it says nothing that can be read")
	}
	if failed := failedTx.FindSubmatch(out); failed != nil && string(failed[1]) != "0" {
		return 0, 0, fmt.Errorf("%s transactions failed", failed[1])
	}
	if done, err = strconv.ParseInt(string(count[1]), 10, 64); err != nil {
		return 0, 0, err
	}
	tps, err = strconv.ParseFloat(string(rate[1]), 64)
	return done, tps, err
}
