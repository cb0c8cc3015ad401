package bench

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// allowed are the processors that this process may use.
func allowed() (cpus []int, err error) {
	var set unix.CPUSet
	err = unix.SchedGetaffinity(0, &set)
	for cpu := range len(set) * bits.UintSize {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, err
}

// bind has a process run on one processor; 0 is the calling thread.
func bind(pid, cpu int) error {
	var only unix.CPUSet
	only.Set(cpu)
	return unix.SchedSetaffinity(pid, &only)
}
