package bench

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// calibrationRuns is how often each piece of work is done for a calibration; the median counts.
	calibrationRuns = 5
	// calibrationWork is how many blocks of 64 KiB each processor hashes, about 20 ms' worth.
	calibrationWork = 500
	// calibrationChanges is how often the other process is asked, about 40 ms' worth.
	calibrationChanges = 2000
	// first is how often a round calibrates before it measures anything, to learn how fast the machine is.
	first = 20
	// patience is how long a run waits in all for the machine to become quiet: even the last measurement leaves
	// PostgreSQL some work.
	patience = 10 * time.Minute
)

// pace is how long the machine takes for two pieces of work, in milliseconds, or how many times as long it takes for them
// at one time as at another. Both take longer where it has other work, or runs slower. But it can calculate as fast as
// ever while it changes between processes, as each payment does many times, at half the speed.
type pace struct {
	Calculation float64 `json:"calculation"`
	Changes     float64 `json:"changes"`
}

// noise is how much a machine was disturbed during a run.
type noise struct {
	pace // how many times as long a calibration took beside one measurement as beside another of the same round
	// Rounds is how many times as fast the same was, at most, in one round as in another. A machine can be quiet whenever
	// a measurement begins, and be slowed down under its load.
	Rounds float64 `json:"rounds"`
}

var (
	// quiet is the noise up to which figures are reliable. Between changes of processes lies what the host does, which no
	// virtual machine is ever quite free from.
	quiet = noise{pace{1.25, 2}, 2}
	// calm is how much longer than the fastest a calibration may take before a measurement. It is less than quiet,
	// because an even faster one may come.
	calm = pace{1.15, 1.5}
)

// over is how many times as long as q it is.
func (p pace) over(q pace) pace {
	return pace{p.Calculation / q.Calculation, p.Changes / q.Changes}
}

func (p pace) within(bound pace) bool {
	return p.Calculation <= bound.Calculation && p.Changes <= bound.Changes
}

func (n noise) within(bound noise) bool { return n.pace.within(bound.pace) && n.Rounds <= bound.Rounds }

func (n noise) String() string {
	return fmt.Sprintf("the same calculation took up to %.2f times as long at one time of a round as at another, changes between processes %.2f times; of two rounds one was up to %.2f times as fast",
		n.Calculation, n.Changes, n.Rounds)
}

// extremes are the shortest and the longest times of each piece of work.
func extremes(calibrations []pace) (shortest, longest pace) {
	for i, p := range calibrations {
		if i == 0 {
			shortest, longest = p, p
		}
		shortest = pace{min(p.Calculation, shortest.Calculation), min(p.Changes, shortest.Changes)}
		longest = pace{max(p.Calculation, longest.Calculation), max(p.Changes, longest.Changes)}
	}
	return shortest, longest
}

// noiseOf is the noise of a run by the calibrations beside the measurements of each round, and by how fast it found the
// same to be in each round. What is compared is compared within a round: a machine that is slower for a whole one
// disturbs no ratio.
func noiseOf(rounds [][]pace, rates []figure) noise {
	n := noise{pace{1, 1}, 1}
	for _, calibrations := range rounds {
		if len(calibrations) == 0 {
			continue
		}
		shortest, longest := extremes(calibrations)
		p := longest.over(shortest)
		n.pace = pace{max(n.Calculation, p.Calculation), max(n.Changes, p.Changes)}
	}
	for _, rate := range rates {
		s := rate.spread()
		n.Rounds = max(n.Rounds, s[1]/s[0])
	}
	return n
}

// noisy is the error for unreliable figures.
func noisy(n noise) error {
	return fmt.Errorf("%w: %s; the bounds are %.2f, %.2f and %.2f; try again when nothing else runs, or have the figures all the same with --noisy",
		ErrNoisy, n, quiet.Calculation, quiet.Changes, quiet.Rounds)
}

// watch is what the calibrations of a run say about the machine.
type watch struct {
	rounds [][]pace // the calibration before each measurement, by round
	all    []pace   // those of this round, also while it waited
	waited time.Duration
}

// begin begins a round. What is never divided into rounds is one.
func (w *watch) begin() { w.rounds, w.all = append(w.rounds, nil), nil }

// quietly measures once the machine is quiet, or once the run has used up its patience.
func quietly[T any](w *watch, o Options, measure func() (T, error)) (T, error) {
	if len(w.rounds) == 0 {
		w.begin()
	}
	begun, round := time.Now(), &w.rounds[len(w.rounds)-1]
	for {
		took, err := calibrate()
		if err != nil {
			var none T
			return none, err
		}
		w.all = append(w.all, took)
		fastest, _ := extremes(w.all)
		still := len(w.all) > first && took.over(fastest).within(calm)
		if still || o.Noisy || w.waited+time.Since(begun) > patience {
			*round = append(*round, took)
			w.waited += time.Since(begun)
			return measure()
		}
	}
}

// calibrate does that work. Everything is bound to a processor: where Linux puts it is chance.
func calibrate() (p pace, err error) {
	cpus, err := allowed()
	if err == nil {
		p.Calculation, err = median(func() error { return calculate(cpus) })
	}
	if err == nil {
		p.Changes, err = change(cpus[0], cpus[len(cpus)-1])
	}
	if err != nil {
		return p, fmt.Errorf("calibrate: %w", err)
	}
	return p, nil
}

// median is how long the work takes, in milliseconds.
func median(work func() error) (float64, error) {
	var took figure
	for range calibrationRuns {
		begun := time.Now()
		if err := work(); err != nil {
			return 0, err
		}
		took = append(took, 1000*time.Since(begun).Seconds())
	}
	return took.median(), nil
}

// calculate keeps every processor busy.
func calculate(cpus []int) error {
	var all errgroup.Group
	for _, cpu := range cpus {
		all.Go(func() error {
			return on(cpu, func() error {
				var block [64 << 10]byte
				for range calibrationWork {
					sum := sha256.Sum256(block[:])
					copy(block[:], sum[:])
				}
				return nil
			})
		})
	}
	return all.Wait()
}

// change is how long it takes to have a process on the other processor send back what it gets, in milliseconds.
func change(here, there int) (took float64, err error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer out.Close()
	defer stdout.Close()
	_, _ = in.Fd(), out.Fd() // from now on they block the thread, which does nothing else meanwhile

	other := exec.Command("cat") // its input ends with this process
	other.Stdin, other.Stdout = stdin, stdout
	if err := other.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close(), other.Wait()) }()
	if err := errors.Join(stdin.Close(), stdout.Close(), bind(other.Process.Pid, there)); err != nil {
		return 0, err
	}
	err = on(here, func() error {
		took, err = median(func() error {
			var word [1]byte
			for range calibrationChanges {
				if _, err := in.Write(word[:]); err != nil {
					return err
				}
				if _, err := out.Read(word[:]); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	return took, err
}

// on does the work on one processor, on a thread that ends with it: it stays bound. No server ends with such a thread,
// since package child starts each on one of its own.
func on(cpu int, work func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		err := bind(0, cpu)
		if err == nil {
			err = work()
		}
		done <- err
	}()
	return <-done
}
