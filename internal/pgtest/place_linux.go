package pgtest

import (
	"os"
	"syscall"
)

const (
	// memory is a file system in memory on nearly every Linux. In a container it may be small.
	memory = "/dev/shm"
	// tmpfs is what the kernel calls such a file system (linux/magic.h).
	tmpfs = 0x01021994
	// room is how many bytes must be free there: several times what all tests together take.
	room = 4 << 30
)

// place is the directory in which a throwaway server gets its own.
//
// Each test's database is some seven hundred files, which are deleted a second later. On a disk that is most of what
// the tests take: ext4 does not give out an inode again for a minute after it was deleted, and so looks through ever
// more of them for each new file.
func place() string {
	var found syscall.Statfs_t
	if err := syscall.Statfs(memory, &found); err != nil || found.Type != tmpfs || found.Bavail*uint64(found.Bsize) < room {
		return os.TempDir()
	}
	const mayWrite = 2 // W_OK of access(2)
	if err := syscall.Access(memory, mayWrite); err != nil {
		return os.TempDir()
	}
	return memory
}
