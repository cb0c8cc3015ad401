package bench

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// calibrationRuns is how often the calibration is run before each measurement; the median counts.
	calibrationRuns = 5
	// calibrationWork is how many blocks of 64 KiB each core hashes, about 20 ms' worth.
	calibrationWork = 100
	// quiet is the greatest ratio of the slowest to the fastest calibration of a run with which its figures are
	// reliable.
	quiet = 1.25
	// calm is how much longer than the fastest a calibration may take before a measurement. It is less than quiet,
	// because an even faster one may come.
	calm = 1.15
	// first is how often a run calibrates at the start, to learn how fast the machine is.
	first = 20
	// patience is how long a run waits in all for the machine to become quiet: even the last measurement leaves
	// PostgreSQL some work.
	patience = 10 * time.Minute
)

// calibrate does the same work on every core at once, and returns how long it took, in milliseconds. It takes longer
// where the machine has other work, or runs slower.
func calibrate() float64 {
	var took []time.Duration
	for range calibrationRuns {
		begun := time.Now()
		var cores sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			cores.Go(func() {
				var block [64 << 10]byte
				for range calibrationWork {
					sum := sha256.Sum256(block[:])
					copy(block[:], sum[:])
				}
			})
		}
		cores.Wait()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// noise is the ratio of the slowest to the fastest calibration of a run.
func noise(calibrations []float64) float64 {
	if len(calibrations) == 0 {
		return 1
	}
	return slices.Max(calibrations) / slices.Min(calibrations)
}

// noisy is the error for unreliable figures.
func noisy(n float64) error {
	return fmt.Errorf("%w: the same work took up to %.2f times as long beside one measurement as beside another, and %.2f is the bound; "+
		"try again when nothing else runs, or have the figures all the same with --noisy", ErrNoisy, n, quiet)
}

// watch is what the calibrations of a run say about the machine.
type watch struct {
	calibrations []float64 // in milliseconds, the one before each measurement
	fastest      float64   // of all
	waited       time.Duration
}

// quietly measures once the machine is quiet, or once the run has used up its patience.
func quietly[T any](w *watch, o Options, measure func() (T, error)) (T, error) {
	begun := time.Now()
	if w.fastest == 0 && !o.Noisy { // nothing is waited for then
		w.fastest = calibrate()
		for range first - 1 {
			w.fastest = min(w.fastest, calibrate())
		}
	}
	for {
		took := calibrate()
		w.fastest = min(w.fastest, took)
		if o.Noisy || took <= calm*w.fastest || w.waited+time.Since(begun) > patience {
			w.calibrations = append(w.calibrations, took)
			w.waited += time.Since(begun)
			return measure()
		}
	}
}
