package child

import "syscall"

// dieWithParent has the kernel send the signal when the thread that starts the child ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
