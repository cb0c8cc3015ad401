package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
)

type benchCommand struct {
	Bin       string  `help:"Directory of the programs (default: the directory of this one)."`
	Only      string  `enum:"credit,scale,flows,lock,growth," default:"" help:"credit: only zaps from credits; scale: only the same with several processes; flows: only Lightning; growth: only what a zap costs as past actions pile up; lock: only the lock."`
	Rounds    int     `default:"3" help:"How many times everything is measured; the medians count."`
	Seconds   float64 `default:"4" help:"Length of one measurement."`
	Clients   []int   `default:"1,8,32,128" help:"How many clients the zap is measured with."`
	Processes []int   `default:"1,2,4" help:"How many processes of the service share one database."`
	Sizes     []int64 `default:"10000,1000000" help:"After how many past actions the cost of a zap is measured."`
	Open      []int   `default:"1000,10000" help:"How many open hold invoices there are when the service starts, with no past actions and with the largest of the sizes."`
	MostOpen  int     `default:"100000" help:"The same again, with no past actions and no bound; 0 skips it."`
	OpenLND   int     `default:"10000" help:"The same with open hold invoices of a real LND and no past actions; 0 skips it."`
	Noisy     bool    `help:"Report the figures even if the machine was noisy; they are marked."`
	Write     string  `help:"File in which the parts between the markers are replaced by the figures of zaps and of Lightning." placeholder:"FILE"`
}

// Validate refuses to measure nothing.
func (c *benchCommand) Validate() error {
	if c.Rounds < 1 {
		return errors.New("--rounds must be 1 or more")
	}
	if c.Seconds <= 0 {
		return errors.New("--seconds must be above 0")
	}
	return nil
}

// Run measures, prints tables as it goes, and in the end one line of JSON. After a partial run that line has only that
// part.
func (c *benchCommand) Run(ctx context.Context) error {
	bin, err := binDir(c.Bin)
	if err != nil {
		return err
	}
	if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
		return err
	}
	options, err := c.options(bin)
	if err != nil {
		return err
	}
	var line bench.Line
	var failed error // of parts that others can be measured without
	for _, part := range []struct {
		name    string
		measure func() (figures, error)
	}{
		{"credit", func() (figures, error) {
			line.CreditZap, err = bench.Run(ctx, options)
			return line.CreditZap, err
		}},
		{"scale", func() (figures, error) {
			line.Scale, err = bench.Scale(ctx, options)
			return line.Scale, err
		}},
		{"flows", func() (figures, error) {
			line.Lightning, err = bench.Lightning(ctx, options)
			return line.Lightning, err
		}},
	} {
		if c.Only != "" && c.Only != part.name {
			continue
		}
		measured, err := part.measure()
		if errors.Is(err, bench.ErrNoisy) { // nothing of this part is reported; the machine may be quiet for the next one
			failed = errors.Join(failed, fmt.Errorf("%s: %w", part.name, err))
			fmt.Printf("\n%s is not reported: %v\n", part.name, err)
			continue
		}
		if err == nil {
			err = c.tell(measured)
		}
		if err != nil {
			return err
		}
	}
	if c.Only == "" || c.Only == "growth" {
		growth, err := bench.Grow(ctx, options, c.Sizes)
		if err != nil && !errors.Is(err, bench.ErrGrows) {
			return err
		}
		line.Growth, failed = growth, errors.Join(failed, err)
		recovery, err := c.recovery(ctx, options)
		if recovery == nil {
			return errors.Join(failed, err)
		}
		line.Recovery, failed = recovery, errors.Join(failed, err)
	}
	if c.Only == "" || c.Only == "lock" {
		if line.Lock, err = c.lock(ctx, bin); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, json.NewEncoder(os.Stdout).Encode(line))
}

// figures are the outcome of one part of the benchmark.
type figures interface {
	Table() string
	Write(page string) error
}

// tell prints figures, and writes them to a page if that is wanted.
func (c *benchCommand) tell(f figures) error {
	fmt.Printf("\n%s\n", f.Table())
	if c.Write == "" {
		return nil
	}
	return f.Write(c.Write)
}

func (c *benchCommand) options(bin string) (bench.Options, error) {
	self, err := os.Executable()
	return bench.Options{Holdfast: filepath.Join(bin, "holdfast"), Load: []string{self, "--follow-parent", "load"},
		Bare: []string{self, "--follow-parent", "bare"}, FakeNode: []string{self, "--follow-parent", "fake-node"}, Programs: bin, Rounds: c.Rounds,
		Takes: time.Duration(c.Seconds * float64(time.Second)), Clients: c.Clients, Processes: c.Processes, Noisy: c.Noisy, Out: os.Stdout}, err
}

// recovery measures a start of the service. It returns a report also with the error that a bound is broken.
func (c *benchCommand) recovery(ctx context.Context, options bench.Options) (*bench.Recovery, error) {
	recovery, err := bench.Recover(ctx, options, bench.Restarts{Actions: slices.Max(c.Sizes), Open: c.Open, Most: c.MostOpen, LND: c.OpenLND})
	if recovery == nil {
		return nil, err
	}
	if errors.Is(err, bench.ErrNoisy) {
		fmt.Printf("\n%s\n", recovery.Table())
		return recovery, err
	}
	return recovery, errors.Join(err, c.tell(recovery))
}

// lock runs the lock's own benchmark, a separate program because it imports what no other package may, and returns the
// "lock" part of its last line.
func (c *benchCommand) lock(ctx context.Context, bin string) (map[string]json.RawMessage, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "lock-bench"), fmt.Sprintf("-rounds=%d", c.Rounds))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("the lock's benchmark: %w", err), echo(&said))
	}
	text := bytes.TrimRight(said.Bytes(), "\n")
	last := bytes.LastIndexByte(text, '\n') + 1
	var line bench.Line
	if err := json.Unmarshal(text[last:], &line); err != nil {
		return nil, fmt.Errorf("the last line of the lock's benchmark is not that of a benchmark: %w", err)
	}
	if line.Lock == nil {
		return nil, errors.New("the last line of the lock's benchmark says nothing of the lock")
	}
	return line.Lock, echo(bytes.NewReader(text[:last]))
}

func echo(from io.Reader) error {
	_, err := io.Copy(os.Stdout, from)
	return err
}
