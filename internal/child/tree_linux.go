package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// childrenOf are the living children of a process.
func childrenOf(parent int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var children []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if state, of := stat(pid); of == parent && !ended(state) {
			children = append(children, pid)
		}
	}
	return children
}

// awaitEnd returns when a killed process is gone, or has only its exit code left, which its new parent may never
// collect.
func awaitEnd(pid int) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		if state, _ := stat(pid); ended(state) {
			return
		}
		<-again.C
	}
}

func ended(state string) bool { return state == "" || state == "Z" || state == "X" }

// stat is the state of a process, one letter of the kernel's, and its parent. The state of a process that is gone is
// "".
func stat(pid int) (state string, parent int) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", 0
	}
	// The name is in brackets and may contain spaces and brackets itself.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(string(fields[1])) // the kernel writes a number
	return string(fields[0]), parent
}
