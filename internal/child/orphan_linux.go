package child

import (
	"os"
	"syscall"
)

// dieWithParent makes the kernel send the signal when the thread that starts the child ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// FollowParent makes the kernel send this process the signal when its parent ends. It is for a program that is called
// by make, which can be killed without a chance to pass the signal on. The request belongs to the calling thread, so
// the caller must be locked to a thread that lives as long as the process. On systems other than Linux it does nothing.
func FollowParent(signal syscall.Signal) error {
	parent := os.Getppid()
	const setParentDeathSignal = 1 // PR_SET_PDEATHSIG
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setParentDeathSignal, uintptr(signal), 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	if os.Getppid() != parent { // the parent ended before the request was made
		return syscall.Kill(os.Getpid(), signal)
	}
	return nil
}
