//go:build unix && !linux

package child

import "syscall"

// dieWithParent does nothing, because only Linux tells a child of its parent's death. Unless it is killed with SIGKILL,
// a parent stops its children itself.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// FollowParent does nothing; see its counterpart for Linux.
func FollowParent(syscall.Signal) error { return nil }
