package dbconn

import (
	"strings"
	"syscall"
	"time"
)

// unacknowledged is how long sent data may remain without an acknowledgement. TCP by default resends for a quarter of
// an hour.
const unacknowledged = 15 * time.Second

// userTimeout is TCP_USER_TIMEOUT of linux/tcp.h, for which package syscall has no name. Its unit is the millisecond.
const userTimeout = 0x12

// control sets up a connection that is about to be made, unless it goes to a socket of this machine.
func control(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var refused error
	err := conn.Control(func(fd uintptr) {
		refused = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(unacknowledged.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return refused
}
