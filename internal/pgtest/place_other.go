//go:build !linux

package pgtest

import "os"

// place is the directory in which a throwaway server gets its own.
func place() string { return os.TempDir() }
