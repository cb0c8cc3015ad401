//go:build !linux

package bench

import "runtime"

// allowed are numbers for all processors: nothing can be bound to one here.
func allowed() (cpus []int, err error) {
	for cpu := range runtime.NumCPU() {
		cpus = append(cpus, cpu)
	}
	return cpus, nil
}

func bind(int, int) error { return nil }
