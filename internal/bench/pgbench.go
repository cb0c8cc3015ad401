package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// pgbenchThreads is pgbench's number of threads. Spec 00 §0.4 has its references measured on two cores.
	pgbenchThreads = 2
	// pgbenchWarm is the default of how long pgbench works before it is measured. Each of its clients has a backend of
	// its own, which at first plans every statement and finds every page for the first time. Where page faults are dear,
	// as on some virtual machines, 32 new backends do a twentieth as much in their first second as in their third. The
	// contenders with a service keep few connections and warm up, too.
	pgbenchWarm = 3 * time.Second
	// pgbenchOld is the most by which a line may be older than the reading of it, if the processor time read then is to be
	// the line's. A busy machine may give this process two lines at once that are a second apart.
	pgbenchOld = 100 * time.Millisecond
	// pgbenchLimit is longer than any measurement takes: pgbench is interrupted.
	pgbenchLimit = time.Hour
)

// progressed is what pgbench says every second: until when, how many transactions per second since the line before, and
// how many of them failed.
var progressed = regexp.MustCompile(`^progress: ([0-9.]+) s, ([0-9.]+) tps, .*, (\d+) failed`)

// pgbench runs a script with prepared statements, and measures it for about this long once it has warmed up. It returns
// the number of transactions, in all and each second, and the processor time of PostgreSQL.
func (d *database) pgbench(ctx context.Context, name, script string, clients int, warm, takes time.Duration) (done int64, tps float64, used time.Duration, err error) {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	cmd, err := d.scriptRun(ctx, name, script, "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(pgbenchThreads, clients)),
		"-T", strconv.Itoa(int(pgbenchLimit/time.Second)), "-P", "1", "--progress-timestamp")
	if err != nil {
		return 0, 0, 0, err
	}
	says, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, 0, 0, fmt.Errorf("pgbench %s: %w", script, err)
	}
	done, tps, used, err = readProgress(says, warm, takes, time.Now, func() (time.Duration, error) { return cpuTime(d.PID()) })
	interrupt()
	_ = cmd.Wait() // it was interrupted
	if err != nil {
		return 0, 0, 0, fmt.Errorf("pgbench %s: %w", script, err)
	}
	return done, tps, used, nil
}

// scriptRun is pgbench with a script and this extent. It ends with ctx.
func (d *database) scriptRun(ctx context.Context, name, script string, extent ...string) (*exec.Cmd, error) {
	args := append([]string{"-M", "prepared", "-n", "-D", "users=" + strconv.Itoa(d.users), "-D", "items=" + strconv.Itoa(d.items),
		"-f", filepath.Join(d.dir, script)}, extent...)
	cmd := exec.CommandContext(ctx, d.Program("pgbench"), args...)
	var err error
	cmd.Env, err = d.environment(name)
	return cmd, err
}

// readProgress reads what pgbench says until it has warmed up and has then worked for about this long. cpu is asked at
// the beginning and at the end of that, each time at a line that is not old: the next one is taken instead.
func readProgress(
	says io.Reader, warm, takes time.Duration, now func() time.Time, cpu func() (time.Duration, error),
) (done int64, tps float64, used time.Duration, err error) {
	var (
		warmAt, begun, at float64 // seconds
		counted           float64
		before            time.Duration
		other             []string
	)
	for lines := bufio.NewScanner(says); lines.Scan(); {
		line := progressed.FindStringSubmatch(lines.Text())
		if line == nil {
			other = append(other, lines.Text())
			continue
		}
		if line[3] != "0" {
			return 0, 0, 0, fmt.Errorf("%s transactions failed", line[3])
		}
		last := at
		if at, err = strconv.ParseFloat(line[1], 64); err != nil {
			return 0, 0, 0, err
		}
		rate, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return 0, 0, 0, err
		}
		switch {
		case warmAt == 0 && rate == 0: // it is still connecting
		case warmAt == 0:
			warmAt = at + warm.Seconds() - 1 // the line is about a second of work
		case begun > 0:
			counted += rate * (at - last)
		}
		old := float64(now().UnixMicro())/1e6-at > pgbenchOld.Seconds()
		if begun > 0 && at-begun > takes.Seconds()-0.5 && !old {
			after, err := cpu()
			return int64(counted + 0.5), counted / (at - begun), after - before, err
		}
		if begun == 0 && warmAt > 0 && at > warmAt-0.5 && !old {
			begun = at
			if before, err = cpu(); err != nil {
				return 0, 0, 0, err
			}
		}
	}
	return 0, 0, 0, errors.New("it ended too early: " + strings.Join(other, "\n"))
}
