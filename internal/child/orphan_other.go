//go:build unix && !linux

package child

import "syscall"

// dieWithParent does nothing: only Linux tells a child of its parent's death. A parent that ends in any way but SIGKILL stops
// its children itself.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// FollowParent does nothing; see its counterpart for Linux.
func FollowParent(syscall.Signal) error { return nil }
