package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is the unit in which Linux reports processor time to programs, whatever its own counting.
const tick = 10 * time.Millisecond

// cpuTime is the processor time that processes and all their descendants have used since they began, including those
// that have ended. It is exact to a tick for each process.
func cpuTime(roots ...int) (time.Duration, error) {
	all, whole, err := processesNow()
	// A process that ended while they were read is counted nowhere, because its parent was read before: read again.
	for again := 0; err == nil && !whole && again < 50; again++ {
		all, whole, err = processesNow()
	}
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, root := range roots {
		if _, ok := all[root]; !ok {
			return 0, fmt.Errorf("process %d: %w", root, fs.ErrNotExist)
		}
	}
	for pid := range all {
		if descends(all, pid, roots) {
			sum += all[pid].own + all[pid].ended
		}
	}
	return sum, nil
}

// processesNow returns all processes. whole is false if one of them ended meanwhile.
func processesNow() (all map[int]usage, whole bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, fmt.Errorf("processor time can be read on Linux alone: %w", err)
	}
	all, whole = map[int]usage{}, true
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			whole = false
			continue
		}
		u, err := readUsage(text)
		if err != nil {
			return nil, false, fmt.Errorf("process %d: %w", pid, err)
		}
		all[pid] = u
	}
	return all, whole, nil
}

// usage is what one process has used.
type usage struct {
	parent     int
	own, ended time.Duration // ended: of the children whose end it has collected, and of theirs
}

var errStat = errors.New("its state cannot be read")

// readUsage reads /proc/PID/stat.
func readUsage(text []byte) (u usage, err error) {
	// The name is in brackets and may contain spaces and brackets itself. After it come the state, the parent, and from
	// the twelfth field on utime, stime, cutime, cstime.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return u, errStat
	}
	var numbers [5]int64
	for i, at := range []int{1, 11, 12, 13, 14} {
		if numbers[i], err = strconv.ParseInt(string(fields[at]), 10, 64); err != nil {
			return u, errStat
		}
	}
	return usage{int(numbers[0]), time.Duration(numbers[1]+numbers[2]) * tick, time.Duration(numbers[3]+numbers[4]) * tick}, nil
}

// descends reports whether a process is one of the roots or a descendant of one.
func descends(all map[int]usage, pid int, roots []int) bool {
	for range len(all) { // processes are read one after the other, so their parents may form a loop
		for _, root := range roots {
			if pid == root {
				return true
			}
		}
		u, ok := all[pid]
		if !ok {
			return false
		}
		pid = u.parent
	}
	return false
}
